# Weft for CMake: find_package(Weft), then target_link_libraries(program Weft::MPI), which has mpi.h and weft.h.
# find_package(MPI) finds Weft as well, by its mpicc.

get_filename_component(_weft_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET Weft::MPI)
  add_library(Weft::MPI SHARED IMPORTED)
  set_target_properties(Weft::MPI PROPERTIES
    IMPORTED_LOCATION "${_weft_prefix}/lib/libmpi_abi.so.1"
    IMPORTED_SONAME "libmpi_abi.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_weft_prefix}/include")
endif()

set(Weft_MPIEXEC_EXECUTABLE "${_weft_prefix}/bin/mpiexec")
set(Weft_MPIEXEC_NUMPROC_FLAG "-n")
unset(_weft_prefix)

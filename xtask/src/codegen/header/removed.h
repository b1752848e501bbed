
/* What MPI 3.0 removed, for programs that are older, with -DWEFT_MPI1. New programs use what each stands for. */
#ifdef WEFT_MPI1
typedef MPI_Comm_errhandler_function MPI_Handler_function;

/* Combiners that no datatype has: the calls of Fortran that they told of are gone. */
enum {
    MPI_COMBINER_HVECTOR_INTEGER = 201,
    MPI_COMBINER_HINDEXED_INTEGER = 202,
    MPI_COMBINER_STRUCT_INTEGER = 203
};

/* Markers of the bounds, in the lists of MPI_Type_struct only; MPI_Type_create_resized sets bounds today. */
#define MPI_LB ((MPI_Datatype)0xf01)
#define MPI_UB ((MPI_Datatype)0xf02)

static inline int MPI_Address(void *location, MPI_Aint *address) {
    return MPI_Get_address(location, address);
}
static inline int MPI_Errhandler_create(MPI_Handler_function *handler_fn, MPI_Errhandler *errhandler) {
    return MPI_Comm_create_errhandler(handler_fn, errhandler);
}
static inline int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler) {
    return MPI_Comm_get_errhandler(comm, errhandler);
}
static inline int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler) {
    return MPI_Comm_set_errhandler(comm, errhandler);
}
static inline int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent) {
    MPI_Aint lower;
    return MPI_Type_get_extent(datatype, &lower, extent);
}
static inline int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement) {
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
}
static inline int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement) {
    MPI_Aint lower, extent;
    int code = MPI_Type_get_extent(datatype, &lower, &extent);
    if (code == MPI_SUCCESS) *displacement = lower + extent;
    return code;
}
static inline int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                                   MPI_Datatype *newtype) {
    return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}
static inline int MPI_Type_hindexed(int count, const int *blocklengths, const MPI_Aint *displacements,
                                    MPI_Datatype oldtype, MPI_Datatype *newtype) {
    return MPI_Type_create_hindexed(count, blocklengths, displacements, oldtype, newtype);
}
/* Entries of MPI_LB and MPI_UB become the bounds of a resized datatype; the envelope of that tells so. */
static inline int MPI_Type_struct(int count, const int *blocklengths, const MPI_Aint *displacements,
                                  const MPI_Datatype *types, MPI_Datatype *newtype) {
    int i, code, lowers = 0, uppers = 0, entries = 0, *lengths;
    MPI_Aint lower = 0, upper = 0, natural, extent, *places;
    MPI_Datatype inner, *kinds;
    void *memory;
    for (i = 0; i < count; i++) {
        if (types[i] == MPI_LB) {
            lower = !lowers++ || displacements[i] < lower ? displacements[i] : lower;
        } else if (types[i] == MPI_UB) {
            upper = !uppers++ || displacements[i] > upper ? displacements[i] : upper;
        }
    }
    if (lowers + uppers == 0) return MPI_Type_create_struct(count, blocklengths, displacements, types, newtype);
    code = MPI_Alloc_mem((MPI_Aint)count * (MPI_Aint)(sizeof *places + sizeof *kinds + sizeof *lengths), MPI_INFO_NULL,
                         &memory);
    if (code != MPI_SUCCESS) return code;
    places = (MPI_Aint *)memory;
    kinds = (MPI_Datatype *)(places + count);
    lengths = (int *)(kinds + count);
    for (i = 0; i < count; i++) {
        if (types[i] == MPI_LB || types[i] == MPI_UB) continue;
        lengths[entries] = blocklengths[i];
        places[entries] = displacements[i];
        kinds[entries++] = types[i];
    }
    code = MPI_Type_create_struct(entries, lengths, places, kinds, &inner);
    MPI_Free_mem(memory);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Type_get_extent(inner, &natural, &extent);
    if (code == MPI_SUCCESS) {
        if (!lowers) lower = natural;
        if (!uppers) upper = natural + extent;
        code = MPI_Type_create_resized(inner, lower, upper - lower, newtype);
    }
    MPI_Type_free(&inner);
    return code;
}
#endif

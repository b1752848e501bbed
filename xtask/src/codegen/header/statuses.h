
/* Statuses of Fortran: an array of integers, or the type TYPE(MPI_Status). Both are laid out as that of C. Where C has
 * MPI_STATUS_IGNORE, Fortran programs have an address of their own, which they turn into that of C themselves. */
typedef struct MPI_F08_status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_F08_status;

#define MPI_F_STATUS_IGNORE ((MPI_Fint *)0)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint *)0)
#define MPI_F08_STATUS_IGNORE ((MPI_F08_status *)0)
#define MPI_F08_STATUSES_IGNORE ((MPI_F08_status *)0)

/* What is no status cannot be converted. */
static inline int MPI_ABI_copy_status(const int *from, int *to) {
    int i;
    if (!from || !to) return MPI_ERR_ARG;
    for (i = 0; i < 8; i++) to[i] = from[i];
    return MPI_SUCCESS;
}
static inline int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status) {
    return MPI_ABI_copy_status((const int *)c_status, f_status);
}
static inline int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status) {
    return MPI_ABI_copy_status(f_status, (int *)c_status);
}
static inline int MPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status) {
    return MPI_ABI_copy_status((const int *)c_status, (int *)f08_status);
}
static inline int MPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status) {
    return MPI_ABI_copy_status((const int *)f08_status, (int *)c_status);
}
static inline int MPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status) {
    return MPI_ABI_copy_status(f_status, (int *)f08_status);
}
static inline int MPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status) {
    return MPI_ABI_copy_status((const int *)f08_status, f_status);
}
#define PMPI_Status_c2f MPI_Status_c2f
#define PMPI_Status_f2c MPI_Status_f2c
#define PMPI_Status_c2f08 MPI_Status_c2f08
#define PMPI_Status_f082c MPI_Status_f082c
#define PMPI_Status_f2f08 MPI_Status_f2f08
#define PMPI_Status_f082f MPI_Status_f082f

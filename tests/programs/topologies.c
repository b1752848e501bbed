/* Grids, graphs, distributed graphs, and collectives among neighbours. */
#include "check.h"

static void grid(void) {
    int dims[2] = {0, 0}, periods[2] = {0, 1}, coords[2], got[2], rings[2], place[2], kind;
    MPI_Comm grid, line;
    MPI_Dims_create(check_size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Topo_test(grid, &kind);
    CHECK(kind == MPI_CART);
    MPI_Cart_get(grid, 2, got, rings, coords);
    CHECK(got[0] == dims[0] && got[1] == dims[1] && !rings[0] && rings[1]);
    CHECK(coords[0] == check_rank / dims[1] && coords[1] == check_rank % dims[1]);
    int rank, up, down, left, right;
    MPI_Cart_coords(grid, check_rank, 2, place);
    place[1] -= dims[1];
    MPI_Cart_rank(grid, place, &rank);
    CHECK(rank == check_rank);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    CHECK(up == (coords[0] > 0 ? check_rank - dims[1] : MPI_PROC_NULL));
    CHECK(down == (coords[0] < dims[0] - 1 ? check_rank + dims[1] : MPI_PROC_NULL));
    MPI_Cart_shift(grid, 1, 1, &left, &right);

    /* To each neighbour: the own rank, and in which direction the neighbour lies. */
    int out[4], in[4] = {-1, -1, -1, -1}, all[4] = {-1, -1, -1, -1};
    for (int i = 0; i < 4; i++) out[i] = 10 * check_rank + i;
    int from[4] = {up, down, left, right};
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, grid);
    MPI_Neighbor_allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, grid);
    for (int i = 0; i < 4; i++) {
        int there = from[i] != MPI_PROC_NULL;
        CHECK(in[i] == (there ? 10 * from[i] + (i ^ 1) : -1));
        CHECK(all[i] == (there ? from[i] : -1));
    }
    MPI_Request request;
    int again[4] = {-1, -1, -1, -1};
    MPI_Ineighbor_alltoall(out, 1, MPI_INT, again, 1, MPI_INT, grid, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(!memcmp(in, again, sizeof in));
    MPI_Neighbor_allgather_init(&check_rank, 1, MPI_INT, again, 1, MPI_INT, grid, MPI_INFO_NULL, &request);
    for (int round = 0; round < 3; round++) {
        memset(again, -1, sizeof again);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(!memcmp(all, again, sizeof all));
    }
    MPI_Request_free(&request);

    /* Large blocks of different datatypes. */
    size_t large = 200000;
    unsigned char *big = malloc(4 * large), *into = calloc(4, large);
    int counts[4] = {(int)large, (int)large, (int)large, (int)large};
    MPI_Aint places[4];
    MPI_Datatype types[4] = {MPI_BYTE, MPI_CHAR, MPI_BYTE, MPI_SIGNED_CHAR};
    for (int i = 0; i < 4; i++) {
        places[i] = (MPI_Aint)(large * (size_t)i);
        fill(big + places[i], large, 10 * check_rank + i);
    }
    MPI_Neighbor_alltoallw(big, counts, places, types, into, counts, places, types, grid);
    for (int i = 0; i < 4; i++)
        if (from[i] != MPI_PROC_NULL) CHECK(intact(into + places[i], large, 10 * from[i] + (i ^ 1)));
    free(big);
    free(into);

    int remain[2] = {0, 1}, length;
    MPI_Cart_sub(grid, remain, &line);
    MPI_Cartdim_get(line, &length);
    CHECK(length == 1);
    MPI_Comm_size(line, &length);
    MPI_Comm_rank(line, &rank);
    CHECK(length == dims[1] && rank == coords[1]);
    MPI_Comm twin;
    MPI_Comm_dup(line, &twin);
    MPI_Topo_test(twin, &kind);
    CHECK(kind == MPI_CART);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&line);
    MPI_Comm_free(&grid);

    /* A grid of one rank less leaves the last one out. */
    int fewer = check_size - 1, none = 0;
    if (fewer > 0) {
        MPI_Cart_create(MPI_COMM_WORLD, 1, &fewer, &none, 0, &grid);
        CHECK((grid == MPI_COMM_NULL) == (check_rank == fewer));
        if (grid != MPI_COMM_NULL) MPI_Comm_free(&grid);
    }
}

static void graph(void) {
    /* A star: rank 0 and all others. */
    int *index = malloc(sizeof(int) * (size_t)check_size), *edges = malloc(sizeof(int) * 2 * (size_t)check_size);
    int others = check_size - 1, kind, nodes, count, number, neighbours[64];
    for (int i = 0; i < check_size; i++) index[i] = others + i;
    for (int i = 0; i < others; i++) edges[i] = i + 1;
    for (int i = 0; i < others; i++) edges[others + i] = 0;
    MPI_Comm star;
    MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 0, &star);
    MPI_Topo_test(star, &kind);
    CHECK(kind == MPI_GRAPH);
    MPI_Graphdims_get(star, &nodes, &count);
    CHECK(nodes == check_size && count == 2 * others);
    MPI_Graph_neighbors_count(star, check_rank, &number);
    CHECK(number == (check_rank ? 1 : others));
    MPI_Graph_neighbors(star, check_rank, 64, neighbours);
    CHECK(number == 0 || neighbours[0] == (check_rank ? 0 : 1));
    int *got = malloc(sizeof(int) * (size_t)check_size);
    MPI_Neighbor_allgather(&check_rank, 1, MPI_INT, got, 1, MPI_INT, star);
    for (int i = 0; i < number; i++) CHECK(got[i] == (check_rank ? 0 : i + 1));
    MPI_Comm_free(&star);
    free(index);
    free(edges);
    free(got);
}

static void distributed(void) {
    /* A ring with a weight for each edge, which rank 0 alone describes. */
    int n = check_rank == 0 ? check_size : 0, kind, in, out, weighted;
    int *sources = malloc(sizeof(int) * (size_t)check_size), *degrees = malloc(sizeof(int) * (size_t)check_size);
    int *ends = malloc(sizeof(int) * (size_t)check_size), *weights = malloc(sizeof(int) * (size_t)check_size);
    for (int i = 0; i < check_size; i++) {
        sources[i] = i;
        degrees[i] = 1;
        ends[i] = (i + 1) % check_size;
        weights[i] = 100 + i;
    }
    MPI_Comm ring;
    MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, ends, n ? weights : MPI_WEIGHTS_EMPTY,
                          MPI_INFO_NULL, 0, &ring);
    MPI_Topo_test(ring, &kind);
    CHECK(kind == MPI_DIST_GRAPH);
    MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && weighted);
    int from, to, from_weight, to_weight;
    MPI_Dist_graph_neighbors(ring, 1, &from, &from_weight, 1, &to, &to_weight);
    int before = (check_rank + check_size - 1) % check_size;
    CHECK(from == before && from_weight == 100 + before);
    CHECK(to == (check_rank + 1) % check_size && to_weight == 100 + check_rank);
    int got = -1;
    MPI_Neighbor_alltoall(&check_rank, 1, MPI_INT, &got, 1, MPI_INT, ring);
    CHECK(got == before);
    MPI_Comm_free(&ring);

    /* Each rank gives its own edges: from all ranks before it, to all behind it. */
    for (int i = 0; i < check_size; i++) sources[i] = i;
    int behind = check_size - check_rank - 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, check_rank, sources, MPI_UNWEIGHTED, behind,
                                   sources + check_rank + 1, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
    CHECK(in == check_rank && out == behind && !weighted);
    MPI_Neighbor_allgather(&check_rank, 1, MPI_INT, ends, 1, MPI_INT, ring);
    for (int i = 0; i < check_rank; i++) CHECK(ends[i] == i);
    MPI_Comm_free(&ring);
    free(sources);
    free(degrees);
    free(ends);
    free(weights);
}

static void wrong(void) {
    int class, value = 0, dims[1] = {check_size + 1}, none[1] = {0};
    MPI_Comm comm;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, none, 0, &comm), &class);
    CHECK(class == MPI_ERR_TOPOLOGY);
    dims[0] = -1;
    MPI_Error_class(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, none, 0, &comm), &class);
    CHECK(class == MPI_ERR_DIMS);
    MPI_Error_class(MPI_Cartdim_get(MPI_COMM_WORLD, &value), &class);
    CHECK(class == MPI_ERR_TOPOLOGY);
    MPI_Error_class(MPI_Neighbor_alltoall(&value, 1, MPI_INT, &value, 1, MPI_INT, MPI_COMM_WORLD), &class);
    CHECK(class == MPI_ERR_TOPOLOGY);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    grid();
    graph();
    distributed();
    wrong();
    check_done("topologies");
    return 0;
}

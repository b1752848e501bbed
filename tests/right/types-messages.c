/*
 * Datatypes that may be received as others: nothing is said.
 * run: 2 any uchar unsigned 16 4
 * run: 2 any int char 4 16
 * run: 2 unexpected int int 4 9
 * run: 2 posted int int 4 9
 * run: 2 probed int int 4 9
 * run: 2 persistent int int 4 9
 * run: 2 synchronous int int 4 9
 * run: 2 any int int32 4
 * run: 2 any int unsigned 4
 * run: 2 any char uchar 4
 * run: 2 any byte double 16 2
 * run: 2 any double byte 2 16
 * run: 2 any packed int 8 2
 * run: 2 any int packed 2 8
 * run: 2 any complex double 2 4
 * run: 2 any aint offset 2
 * run: 2 any aint long 2
 * run: 2 any integer int 3
 * run: 2 any pair-int int 3 6
 * run: 2 any int pair-int 4 9
 * run: 2 any vector-int int 2 4
 * run: 2 any int vector-int 3 9
 * run: 2 any int-double int-double 2 5
 * run: 2 any int int-double 1 9
 * run: 2 any float_int float-int 3
 * run: 2 any 2int pair-int 2
 * run: 2 any int float 0
 * run: 2 any int-float byte 2 16
 * run: 2 posted float float 300000
 * run: 2 posted vector-int int 100000 200000
 * run: 2 any int-double int-double 100000
 */
#include "../wrong/types-messages.c"

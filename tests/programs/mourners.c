/* The last node is killed while the others wait for it in four ways: each gets an error that names it,
 * and the four continue with each other. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft.h>

int main(void) {
    static char data[100000];
    long lost = 0;
    weft_init();
    int me = weft_node(), dead = weft_nodes() - 1, list[] = {me, dead};
    int in = weft_mailbox_create(me, 0), bulk = weft_portal_create(me, 0);
    char body[8] = "", named[32];
    if (me == dead) {
        /* Killed with an operation under way. */
        weft_portal_allow(bulk, 0, 0), weft_portal_aread(bulk, data, sizeof data);
        kill(getpid(), SIGKILL);
    } else if (me == 0) {
        lost = weft_mailbox_read(in, body, sizeof body);
    } else if (me == 1) {
        weft_portal_allow(bulk, dead, 0);
        lost = weft_portal_read(bulk, data, sizeof data);
    } else if (me == 2) {
        lost = weft_portal_write(weft_portal_open(me, dead, 0), data, sizeof data);
    } else {
        lost = weft_sync_wait(weft_sync_create(list, 2, WEFT_SYNC_ALL_TO_ONE));
    }
    snprintf(named, sizeof named, "node %d is lost", dead);
    if (lost != -EHOSTDOWN || !strstr(weft_error(), named)) {
        fprintf(stderr, "node %d: %ld, %s\n", me, lost, weft_error());
        return 1;
    }
    int out = weft_mailbox_open((me + 1) % dead, 1), rest = weft_mailbox_create(me, 1);
    if (weft_mailbox_write(out, body, sizeof body) < 0)
        return 2;
    while ((lost = weft_mailbox_read(rest, body, sizeof body)) == -EHOSTDOWN)
        ;
    printf("mourned node %d\n", dead);
    return lost == sizeof body ? weft_finalize() : 3;
}

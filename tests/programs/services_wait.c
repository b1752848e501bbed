/* Each of four nodes waits for ever in another call of the services. */
#include <stdio.h>

#include <weft.h>

int main(void) {
    if (weft_init() != 0)
        return 1;
    int me = weft_node();
    char bytes[64] = {0};
    if (me == 3) {
        puts("ready");
        fflush(stdout);
    }
    switch (me) {
    case 0:
        weft_mailbox_read(weft_mailbox_create(me, 3), bytes, sizeof bytes);
        break;
    case 1: {
        int portal = weft_portal_create(me, 2);
        weft_portal_allow(portal, 0, 1);
        weft_portal_read(portal, bytes, sizeof bytes);
        break;
    }
    case 2: {
        const int nodes[] = {2, 0, 1};
        weft_sync_wait(weft_sync_create(nodes, 3, WEFT_SYNC_ALL_TO_ONE));
        break;
    }
    default:
        weft_portal_write(weft_portal_open(me, 0, 9), bytes, sizeof bytes);
    }
    return weft_finalize();
}

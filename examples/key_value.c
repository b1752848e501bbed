/* A key-value server: requests by mailbox, values by portal.
 *
 *   mpicc key_value.c -o key_value && mpiexec --on-death=restart -n 17 ./key_value
 *
 * Node 0 serves, the others put and get. When the server is killed (the launcher says `started anew`),
 * whoever waits for it gets an error that names it, finds it again by its name, and puts again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { KEYS = 64, VALUE = 16384 };
struct request { int put, key, portal; };

static void serve(int clients) {
    static char values[KEYS][VALUE];
    struct request ask;
    int requests = weft_mailbox_create(0, 0), in = weft_portal_create(0, 0), client;
    if (requests < 0 || in < 0 || weft_name_link("key-value", 0) < 0)
        return;
    while (clients > 0)
        if (weft_mailbox_read(requests, &ask, sizeof ask) < 0) {
            fprintf(stderr, "server: %s\n", weft_error());
            clients--; /* one client less */
        } else if (weft_mailbox_source(requests, &client, NULL), ask.key == KEYS) {
            clients--; /* it has finished */
        } else if (ask.put) {
            weft_portal_allow(in, client, ask.portal);
            weft_portal_read(in, values[ask.key % KEYS], VALUE);
        } else {
            int out = weft_portal_open(0, client, 0);
            weft_portal_write(out, values[ask.key % KEYS], VALUE);
            weft_portal_close(out);
        }
}

/* Puts a value and gets it back; 0, or an error of weft.h. */
static int put_and_get(int out, int requests, int in, int key, char *value, char *copy) {
    struct request ask = {1, key, weft_portal_port(out)};
    memset(value, key, VALUE);
    if (weft_mailbox_write(requests, &ask, sizeof ask) < 0 || weft_portal_write(out, value, VALUE) < 0)
        return -1;
    ask.put = 0;
    if (weft_mailbox_write(requests, &ask, sizeof ask) < 0)
        return -1;
    weft_portal_allow(in, 0, 0);
    return weft_portal_read(in, copy, VALUE) < 0 ? -1 : 0;
}

int main(int words, char **word) {
    static char value[VALUE], copy[VALUE];
    int server, port, errors = 0, rounds = words > 1 ? atoi(word[1]) : 500;
    weft_init();
    int me = weft_node(), in = me > 0 ? weft_portal_create(me, 0) : -1;
    if (me == 0)
        serve(weft_nodes() - 1);
    for (int round = 0; me > 0 && round < rounds; round++) {
        if (weft_name_find("key-value", &server, &port) < 0)
            return 1; /* nobody is left who could serve */
        int requests = weft_mailbox_open(server, port), out = weft_portal_open(me, server, 0);
        if (put_and_get(out, requests, in, me % KEYS, value, copy) < 0) {
            fprintf(stderr, "client %d: %s\n", me, weft_error());
            errors++, round--;
        } else if (memcmp(value, copy, VALUE) != 0)
            return 1;
        weft_mailbox_close(requests), weft_portal_close(out);
    }
    if (me > 0) {
        struct request end = {0, KEYS, 0};
        weft_name_find("key-value", &server, &port);
        weft_mailbox_write(weft_mailbox_open(server, port), &end, sizeof end);
        printf("client %d: %d rounds, %d errors\n", me, rounds, errors);
    }
    return weft_finalize();
}

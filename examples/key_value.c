/* A key-value server: requests by mailbox, values by portal.
 *
 *   mpicc key_value.c -o key_value && weft run --on-death=restart -n 17 ./key_value
 *
 * Node 0 serves, the others put and get. When the server is killed (the launcher says `started anew`),
 * its clients get an error that names it, find the next one, and put again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static char values[64][16384], value[16384], copy[16384];

int main(int words, char **word) {
    int rounds = words > 1 ? atoi(word[1]) : 500, errors = 0, me, clients;
    if (weft_init() < 0)
        return fprintf(stderr, "%s\n", weft_error()), 1;
    if (me = weft_node(), clients = weft_nodes() - 1, clients == 0)
        return fprintf(stderr, "start with a server and clients: weft run -n 2 %s\n", word[0]), 2;
    if (me == 0) {
        struct weft_request ask;
        for (int server = weft_server_create("key-value"); clients > 0;)
            if (weft_server_next(server, &ask) < 0)
                clients--, fprintf(stderr, "server: %s\n", weft_error()); /* a client has died */
            else if (ask.text[0] == 'p')
                weft_server_take(server, &ask, values[ask.text[1] % 64], 16384);
            else if (ask.text[0] == 'g')
                weft_server_give(server, &ask, values[ask.text[1] % 64], 16384);
            else
                clients--; /* it has finished */
        return weft_finalize();
    }
    char put[] = {'p', (char)(me % 64)}, get[] = {'g', (char)(me % 64)};
    memset(value, me, sizeof value);
    int server = weft_client_open("key-value");
    for (int done = 0; done < rounds && errors < 100; done++)
        if (weft_client_give(server, put, 2, value, sizeof value) < 0 || weft_client_take(server, get, 2, copy, sizeof copy) < 0)
            errors++, done--, fprintf(stderr, "client %d: %s\n", me, weft_error());
        else if (memcmp(value, copy, sizeof value) != 0)
            return fprintf(stderr, "client %d: not what was put\n", me), 1;
    while (weft_client_tell(server, "end", 3) < 0 && errors < 100)
        errors++;
    printf("client %d: %d rounds, %d errors\n", me, rounds, errors);
    return weft_finalize();
}

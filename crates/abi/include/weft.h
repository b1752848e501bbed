/* Interface of Weft for C programs besides MPI. The symbols are in libmpi_abi.so.1, next to those of
 * mpi.h: a program may use either or both. Compile with mpicc, start with `weft run -n 17 ./program`
 * (or alone, as a job of one). */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Services: mailbox, portal, sync -------------------------------------------------------------
 *
 * A node is a process of the job, numbered from 0. A port is a number of the receiver's choice; each
 * service has its own ports. Functions return 0 or more, or a negative errno; weft_error() then says
 * what was expected, what was found, and a remedy. A service that cannot continue because a node has
 * died returns -EHOSTDOWN, and the sentence names the node.
 *
 * An id names one end of a service in this process; any thread may use any id, one operation at a
 * time. An operation is `aread` or `awrite` and then `wait`, or both in one: `read`, `write`. */

/* Ports of a node, per service. */
#define WEFT_PORTS 256
/* Bytes of the longest mailbox message. */
#define WEFT_MAILBOX_MAX 120
/* Bytes of the largest portal transfer: 1 GiB. */
#define WEFT_PORTAL_MAX 1073741824
/* Bytes of the longest name, without the end. */
#define WEFT_NAME_MAX 63
/* Any node, any port: for weft_mailbox_set_remote. */
#define WEFT_ANY (-1)

/* Joins the job. Further calls are counted, and need as many calls of weft_finalize. */
int weft_init(void);
/* Leaves the job: everything written is on its way, and the other nodes know. */
int weft_finalize(void);
/* Number of this node. */
int weft_node(void);
/* Number of nodes. */
int weft_nodes(void);
/* The error of the last failed call of this thread. Valid until the next one that fails. */
const char *weft_error(void);

/* Mailbox: small messages, from many nodes to one port, in order per sender. */
int weft_mailbox_create(int node, int port); /* input: node is this one */
int weft_mailbox_open(int node, int port);   /* output; the target may be created later */
int weft_mailbox_unlink(int id);             /* ends an input */
int weft_mailbox_close(int id);              /* ends an output */
ssize_t weft_mailbox_write(int id, const void *buffer, size_t size);
ssize_t weft_mailbox_read(int id, void *buffer, size_t size); /* returns the bytes that arrived */
int weft_mailbox_awrite(int id, const void *buffer, size_t size); /* buffer may be reused at once */
int weft_mailbox_aread(int id, void *buffer, size_t size);        /* buffer is in use until wait */
ssize_t weft_mailbox_wait(int id);
/* The next read takes only a message from this node and source port (WEFT_ANY: any). */
int weft_mailbox_set_remote(int id, int node, int port);
/* The sender of the message that was read last. Either pointer may be NULL. */
int weft_mailbox_source(int id, int *node, int *port);
/* The port of an input, the source port of an output. */
int weft_mailbox_port(int id);
int weft_mailbox_ioctl(int id, unsigned request, ...);

/* Portal: bulk data, moved only where and when the receiver permits. */
int weft_portal_create(int node, int port);           /* input: node is this one */
int weft_portal_open(int local, int node, int port);  /* output: local is this node */
int weft_portal_allow(int id, int node, int port);    /* one transfer, from that node and source port */
int weft_portal_unlink(int id);
int weft_portal_close(int id);
ssize_t weft_portal_write(int id, const void *buffer, size_t size); /* returns when the data have left */
ssize_t weft_portal_read(int id, void *buffer, size_t size);        /* returns the bytes that arrived */
int weft_portal_awrite(int id, const void *buffer, size_t size);    /* buffer is in use until wait */
int weft_portal_aread(int id, void *buffer, size_t size);
ssize_t weft_portal_wait(int id);
int weft_portal_port(int id);
int weft_portal_ioctl(int id, unsigned request, ...);

/* Sync: counted signals without data. nodes[0] is the one, the others are the many. */
#define WEFT_SYNC_ALL_TO_ONE 0 /* the many signal, the one waits */
#define WEFT_SYNC_ONE_TO_ALL 1 /* the one signals, the many wait */
int weft_sync_create(const int *nodes, int count, int type); /* for a node that waits */
int weft_sync_open(const int *nodes, int count, int type);   /* for a node that signals */
int weft_sync_signal(int id);
int weft_sync_wait(int id); /* for one signal from each expected node; early ones count */
int weft_sync_unlink(int id);
int weft_sync_close(int id);
int weft_sync_ioctl(int id, unsigned request, ...);

/* Names of ports of this job. */
int weft_name_link(const char *name, int port);              /* names a port of this node */
int weft_name_lookup(const char *name, int *node, int *port); /* -ENOENT if no node is known to have it */
int weft_name_find(const char *name, int *node, int *port);   /* waits until a node has it */
int weft_name_unlink(const char *name);

/* Servers and clients: a request by mailbox, a value by portal, in one call; Weft chooses the ports. */
#define WEFT_REQUEST_MAX 118 /* bytes of the longest request */
struct weft_request {
    int node;      /* the asking node */
    unsigned size; /* bytes of text */
    char text[WEFT_REQUEST_MAX];
    unsigned char wish, port; /* what the client waits for: for take and give */
};
/* A server of this name. During a request that brings or asks for a value, the client waits for the
 * server's take or give. A client that has died is an error of `next`, once: the server continues. */
int weft_server_create(const char *name);
int weft_server_next(int id, struct weft_request *request); /* waits */
ssize_t weft_server_take(int id, const struct weft_request *request, void *buffer, size_t size);
ssize_t weft_server_give(int id, const struct weft_request *request, const void *buffer, size_t size);
int weft_server_unlink(int id);
/* A client of the server with this name; calls wait until there is one. When that server dies, each of its
 * clients gets -EHOSTDOWN once, and the call after that waits for the next server. */
int weft_client_open(const char *name);
int weft_client_tell(int id, const void *request, size_t size);
ssize_t weft_client_give(int id, const void *request, size_t size, const void *value, size_t bytes);
ssize_t weft_client_take(int id, const void *request, size_t size, void *value, size_t room);
int weft_client_close(int id);

/* Requests of ioctl, and the type to which their argument points. */
#define WEFT_IOCTL_VOLUME 1  /* size_t: bytes moved by this id; not for sync */
#define WEFT_IOCTL_LATENCY 2 /* uint64_t: nanoseconds spent in calls of this id that moved bytes */
#define WEFT_IOCTL_CREATES 3 /* uint64_t: completed calls of this process, for all ids */
#define WEFT_IOCTL_UNLINKS 4
#define WEFT_IOCTL_OPENS 5
#define WEFT_IOCTL_CLOSES 6
#define WEFT_IOCTL_READS 7
#define WEFT_IOCTL_WRITES 8
#define WEFT_IOCTL_WAITS 9    /* sync */
#define WEFT_IOCTL_SIGNALS 10 /* sync */
#define WEFT_IOCTL_SET_REMOTE 9 /* mailbox; int, int: as weft_mailbox_set_remote */

#ifdef __cplusplus
}
#endif

/* ---- Fibers ------------------------------------------------------------------------------------- */
#include "weft_fiber.h"

#endif

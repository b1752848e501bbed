/* Starts a program under a filter of system calls that refuses some of them, in this process and all that it starts, as containers do. Without a
   list: those that read or write the memory of other processes. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

static const struct {
    const char *name;
    long numbers[2];
} CALLS[] = {
    {"process_vm", {__NR_process_vm_readv, __NR_process_vm_writev}},
    {"memfd_create", {__NR_memfd_create, __NR_memfd_create}},
    {"pidfd_open", {__NR_pidfd_open, __NR_pidfd_send_signal}},
    {"signalfd", {__NR_signalfd4, __NR_signalfd4}},
    {"prctl", {__NR_prctl, __NR_prctl}},
    {"sched_setaffinity", {__NR_sched_setaffinity, __NR_sched_getaffinity}},
    {"membarrier", {__NR_membarrier, __NR_membarrier}},
    {"io_uring", {__NR_io_uring_setup, __NR_io_uring_enter}},
};

int main(int argc, char **argv) {
    struct sock_filter steps[64] = {LOAD(nr)};
    unsigned length = 1;
    int first = 1;
    for (int more = 1; more; first += more) {
        const char *name = argc > first ? argv[first] : "";
        more = name[0] == '-';
        if (!more && first > 1)
            break;
        const char *wanted = more ? name + 1 : CALLS[0].name;
        size_t index = 0;
        while (index < sizeof CALLS / sizeof CALLS[0] && strcmp(CALLS[index].name, wanted))
            index++;
        if (index == sizeof CALLS / sizeof CALLS[0] || length > 56) {
            fprintf(stderr, "usage: deny [-CALL]... PROGRAM [ARGUMENT...]\n");
            return 2;
        }
        steps[length++] = (struct sock_filter)EQUAL(CALLS[index].numbers[0], 1, 0);
        steps[length++] = (struct sock_filter)EQUAL(CALLS[index].numbers[1], 0, 1);
        steps[length++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    }
    if (argc <= first) {
        fprintf(stderr, "usage: deny [-CALL]... PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    steps[length++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    struct sock_fprog program = {length, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("deny: no filter of system calls");
        return 77;
    }
    /* Without a working filter the test would show nothing. */
    char from = 1, into = 0;
    struct iovec source = {&from, 1}, target = {&into, 1};
    if (first == 1 && (process_vm_readv(getpid(), &target, 1, &source, 1, 0) != -1 || errno != EPERM)) {
        fprintf(stderr, "deny: the filter lets process_vm_readv pass\n");
        return 1;
    }
    execvp(argv[first], argv + first);
    perror(argv[first]);
    return 127;
}

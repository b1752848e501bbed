/* Starts a program that may neither read nor write the memory of other processes, as in many containers:
   a filter of system calls refuses process_vm_readv and process_vm_writev, here and in all it starts. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: deny PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    struct sock_filter steps[] = {
        LOAD(nr),
        EQUAL(__NR_process_vm_readv, 1, 0),
        EQUAL(__NR_process_vm_writev, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof steps[0], steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("deny: no filter of system calls");
        return 77;
    }
    /* The filter works, or the test shows nothing. */
    char from = 1, into = 0;
    struct iovec source = {&from, 1}, target = {&into, 1};
    if (process_vm_readv(getpid(), &target, 1, &source, 1, 0) != -1 || errno != EPERM) {
        fprintf(stderr, "deny: the filter lets process_vm_readv pass\n");
        return 1;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}

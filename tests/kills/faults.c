/* Preloaded into a process and all that it starts, this counts the calls that change files, and
 * ends them all, or fails a call, at the n-th.
 *
 * What is to happen stands in a page that the processes share: the file that $FAULTS names, whose
 * fields are those of `struct plan`. Only processes of the group `group` are counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE = 2, NAME = 4, SYNC = 8, SIZE = 16, REMOVE = 32 };
enum { OFF, KILL, FAIL, SHORT };

static struct plan {
    long count, at;               /* Calls so far; the one at which it happens. */
    long each[6];                 /* Calls so far of each kind. */
    int what, error, stays, kinds; /* `stays`: all later calls fail as well. */
    int group, hits;
    char told[256];               /* The call at which it happened first. */
} *plan;

__attribute__((constructor)) static void find_plan(void) {
    const char *path = getenv("FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *found;
    if (file < 0) return;
    found = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) plan = found;
}

static void tell(const char *name, int file, const char *path) {
    char link[32], target[160] = "";
    if (path == NULL && file >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        if (readlink(link, target, sizeof target - 1) < 0) target[0] = 0;
        path = target;
    }
    snprintf(plan->told, sizeof plan->told, "%s %s", name, path ? path : "");
}

/* Count a call; return what is to happen to it. */
static int count(int kind, const char *name, int file, const char *path) {
    struct stat status;
    long n;
    if (plan == NULL || plan->what == OFF || !(plan->kinds & kind)) return OFF;
    if (getpgrp() != plan->group) return OFF;
    if (path != NULL && strncmp(path, "/dev/null", 9) == 0) return OFF;
    if (path == NULL && kind & (WRITE | SIZE))  /* What goes to a pipe is in no file. */
        if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return OFF;
    __atomic_add_fetch(&plan->each[__builtin_ctz(kind)], 1, __ATOMIC_SEQ_CST);
    n = __atomic_add_fetch(&plan->count, 1, __ATOMIC_SEQ_CST);
    if (n != plan->at && !(plan->stays && n > plan->at)) return OFF;
    if (__atomic_fetch_add(&plan->hits, 1, __ATOMIC_SEQ_CST) == 0) tell(name, file, path);
    if (plan->what == KILL) {
        kill(-plan->group, SIGKILL);
        pause();
    }
    return plan->what;
}

#define REAL(name)                                                    \
    static __typeof__(&name) real;                                    \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

#define FAILS(kind, name, file, path)                                 \
    if (count(kind, #name, file, path) == FAIL) {                     \
        errno = plan->error;                                          \
        return -1;                                                    \
    }

#define WRAP(result, name, parameters, arguments, kind, file, path)   \
    result name parameters {                                          \
        REAL(name)                                                    \
        FAILS(kind, name, file, path)                                 \
        return real arguments;                                        \
    }

/* Of a write that is cut short, the first half gets through. */
#define CUT(result, name, parameters, arguments, file, size)          \
    result name parameters {                                          \
        REAL(name)                                                    \
        switch (count(WRITE, #name, file, NULL)) {                    \
        case FAIL: errno = plan->error; return -1;                    \
        case SHORT: if (size > 1) size /= 2;                          \
        }                                                             \
        return real arguments;                                        \
    }

CUT(ssize_t, write, (int f, const void *b, size_t n), (f, b, n), f, n)
CUT(ssize_t, pwrite, (int f, const void *b, size_t n, off_t o), (f, b, n, o), f, n)
CUT(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t o), (f, b, n, o), f, n)
CUT(ssize_t, writev, (int f, const struct iovec *v, int n), (f, v, n), f, n)
CUT(ssize_t, sendfile, (int f, int g, off_t *o, size_t n), (f, g, o, n), f, n)
CUT(ssize_t, sendfile64, (int f, int g, off64_t *o, size_t n), (f, g, o, n), f, n)
CUT(ssize_t, copy_file_range, (int g, off64_t *p, int f, off64_t *o, size_t n, unsigned w),
    (g, p, f, o, n, w), f, n)
WRAP(int, fsync, (int f), (f), SYNC, f, NULL)
WRAP(int, fdatasync, (int f), (f), SYNC, f, NULL)
WRAP(int, ftruncate, (int f, off_t n), (f, n), SIZE, f, NULL)
WRAP(int, ftruncate64, (int f, off64_t n), (f, n), SIZE, f, NULL)
WRAP(int, fallocate, (int f, int m, off_t o, off_t n), (f, m, o, n), SIZE, f, NULL)
WRAP(int, fallocate64, (int f, int m, off64_t o, off64_t n), (f, m, o, n), SIZE, f, NULL)
WRAP(int, rename, (const char *a, const char *b), (a, b), NAME, -1, b)
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b), NAME, -1, b)
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f),
     NAME, -1, b)
WRAP(int, link, (const char *a, const char *b), (a, b), NAME, -1, b)
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), NAME, -1, b)
WRAP(int, symlink, (const char *a, const char *b), (a, b), NAME, -1, b)
WRAP(int, unlink, (const char *a), (a), REMOVE, -1, a)
WRAP(int, unlinkat, (int d, const char *a, int f), (d, a, f), REMOVE, -1, a)
WRAP(int, mkdir, (const char *a, mode_t m), (a, m), NAME, -1, a)
WRAP(int, rmdir, (const char *a), (a), REMOVE, -1, a)
WRAP(int, fchmod, (int f, mode_t m), (f, m), NAME, f, NULL)
WRAP(int, chmod, (const char *a, mode_t m), (a, m), NAME, -1, a)

#define OPENING(name, first, firsts)                                  \
    int name first {                                                  \
        mode_t mode = 0;                                              \
        REAL(name)                                                    \
        if (flags & (O_CREAT | __O_TMPFILE)) {                        \
            va_list rest;                                             \
            va_start(rest, flags);                                    \
            mode = va_arg(rest, mode_t);                              \
            va_end(rest);                                             \
        }                                                             \
        if ((flags & O_ACCMODE) != O_RDONLY) FAILS(OPEN, name, -1, path) \
        return real firsts;                                           \
    }

OPENING(open, (const char *path, int flags, ...), (path, flags, mode))
OPENING(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENING(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENING(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

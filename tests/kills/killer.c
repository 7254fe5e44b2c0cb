/* Preloaded into a process, this ends it right before its n-th call that changes a file.
 *
 * `killer_arm(n)` starts to count in the calling process alone; what it starts is not counted.
 * `killer_count()` returns how many calls there were since.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long left, counted;
static pid_t armed;

void killer_arm(long n) { left = n; counted = 0; armed = getpid(); }
long killer_count(void) { return counted; }

static void count(void) {
    if (armed == 0 || getpid() != armed) return;
    counted++;
    if (--left == 0) kill(armed, SIGKILL);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(result, name, parameters, arguments) \
    result name parameters { count(); return REAL(name) arguments; }

WRAP(ssize_t, write, (int f, const void *b, size_t n), (f, b, n))
WRAP(ssize_t, pwrite, (int f, const void *b, size_t n, off_t o), (f, b, n, o))
WRAP(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t o), (f, b, n, o))
WRAP(int, fsync, (int f), (f))
WRAP(int, fdatasync, (int f), (f))
WRAP(int, ftruncate, (int f, off_t n), (f, n))
WRAP(int, ftruncate64, (int f, off64_t n), (f, n))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b))
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f))
WRAP(int, unlink, (const char *a), (a))
WRAP(int, unlinkat, (int d, const char *a, int f), (d, a, f))
WRAP(int, mkdir, (const char *a, mode_t m), (a, m))
WRAP(int, rmdir, (const char *a), (a))
WRAP(int, fchmod, (int f, mode_t m), (f, m))

#define OPEN(name, first, firsts)                            \
    int name first {                                         \
        mode_t mode = 0;                                     \
        if (flags & (O_CREAT | O_TMPFILE)) {                 \
            va_list rest;                                    \
            va_start(rest, flags);                           \
            mode = va_arg(rest, mode_t);                     \
            va_end(rest);                                    \
        }                                                    \
        if ((flags & O_ACCMODE) != O_RDONLY) count();        \
        return REAL(name) firsts;                            \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

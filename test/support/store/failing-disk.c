/*
 * Makes writes below one folder fail as on a full or broken disk. The test compiles this file and loads it into the
 * gateway with LD_PRELOAD. The test sets the error in a file that the gateway maps.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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

/* failing-disk.ts writes this layout. */
static struct control {
  int error;   /* errno of the failing writes; 0 if none fails */
  int allowed; /* writes that succeed before the first failure */
  int seen;    /* writes below the folder since the test set the error */
  char folder[4084];
} *control;

__attribute__((constructor)) static void map_control(void) {
  const char *path = getenv("FAILING_DISK");
  if (path == NULL) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) control = mapped;
}

static int fails_path(const char *path) {
  if (control == NULL || path == NULL) return 0;
  int error = __atomic_load_n(&control->error, __ATOMIC_SEQ_CST);
  if (error == 0 || strncmp(path, control->folder, strlen(control->folder)) != 0) return 0;
  if (__atomic_fetch_add(&control->seen, 1, __ATOMIC_SEQ_CST) < control->allowed) return 0;
  errno = error;
  return 1;
}

static int fails_fd(int fd) {
  if (control == NULL || control->error == 0) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails_path(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(result, name, condition, parameters, arguments) \
  result name parameters { \
    static __typeof__(&name) real; \
    if (real == NULL) real = REAL(name); \
    return condition ? -1 : real arguments; \
  }

WRAP(ssize_t, write, fails_fd(fd), (int fd, const void *bytes, size_t size), (fd, bytes, size))
WRAP(ssize_t, pwrite, fails_fd(fd), (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, size, at))
WRAP(ssize_t, pwrite64, fails_fd(fd), (int fd, const void *bytes, size_t size, off64_t at), (fd, bytes, size, at))
WRAP(ssize_t, writev, fails_fd(fd), (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRAP(ssize_t, pwritev, fails_fd(fd), (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRAP(ssize_t, pwritev64, fails_fd(fd), (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
WRAP(ssize_t, copy_file_range, fails_fd(out),
     (int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags), (in, from, out, to, size, flags))
WRAP(ssize_t, sendfile, fails_fd(out), (int out, int in, off_t *from, size_t size), (out, in, from, size))
WRAP(ssize_t, sendfile64, fails_fd(out), (int out, int in, off64_t *from, size_t size), (out, in, from, size))
WRAP(int, fsync, fails_fd(fd), (int fd), (fd))
WRAP(int, fdatasync, fails_fd(fd), (int fd), (fd))
WRAP(int, mkdir, (access(path, F_OK) != 0 && fails_path(path)), (const char *path, mode_t mode), (path, mode))
WRAP(int, rename, fails_path(to), (const char *from, const char *to), (from, to))
WRAP(int, link, fails_path(to), (const char *from, const char *to), (from, to))
WRAP(int, symlink, fails_path(to), (const char *target, const char *to), (target, to))

/* Only the creation of a file needs space. */
#define WRAP_OPEN(name, parameters, ...) \
  int name parameters { \
    static __typeof__(&name) real; \
    if (real == NULL) real = REAL(name); \
    mode_t mode = 0; \
    if (flags & O_CREAT) { \
      va_list rest; \
      va_start(rest, flags); \
      mode = va_arg(rest, mode_t); \
      va_end(rest); \
      if (access(path, F_OK) != 0 && fails_path(path)) return -1; \
    } \
    return real(__VA_ARGS__, flags, mode); \
  }

WRAP_OPEN(open, (const char *path, int flags, ...), path)
WRAP_OPEN(open64, (const char *path, int flags, ...), path)
WRAP_OPEN(openat, (int folder, const char *path, int flags, ...), folder, path)
WRAP_OPEN(openat64, (int folder, const char *path, int flags, ...), folder, path)

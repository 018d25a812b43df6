/*
 * Copies files between a call's scratch folder and the gateway. The plugin may change the folder at the same time,
 * so each part of a path is opened relative to its parent and without following links. A file that is sent is checked
 * on its open descriptor: a regular file with one link, no special bits, and at most the requested size. A file that is
 * received must not exist yet.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-init.h"

#define CHUNK_BYTES 65536

static char chunk[CHUNK_BYTES];

static int fail_with(int code) {
  errno = code;
  return -1;
}

static int is_plain(const char *part) {
  return part[0] != '\0' && strcmp(part, ".") != 0 && strcmp(part, "..") != 0;
}

static int is_link(int folder, const char *part) {
  struct stat info;
  return fstatat(folder, part, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

/*
 * Opens the folder that contains the last part of `path` and sets `last` to that part. Returns -1 and sets errno on
 * failure.
 */
static int open_parent(int scratch, char *path, char **last) {
  int folder = dup(scratch);
  if (folder < 0) return -1;
  for (char *slash; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
    *slash = '\0';
    int next = is_plain(path) ? openat(folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                              : fail_with(EINVAL);
    if (next < 0 && errno == ENOTDIR && is_link(folder, path)) errno = ELOOP;
    int error = errno;
    close(folder);
    if (next < 0) return fail_with(error);
    folder = next;
  }
  *last = path;
  if (is_plain(path)) return folder;
  close(folder);
  return fail_with(EINVAL);
}

/* Cuts the number after the last space off the request and returns it; -1 if there is none. */
static long long cut_number(char *request) {
  char *space = strrchr(request, ' ');
  if (space == NULL) return -1;
  *space = '\0';
  return atoll(space + 1);
}

static int check_file(int fd, long long max) {
  struct stat info;
  if (fstat(fd, &info) < 0) return -1;
  if (!S_ISREG(info.st_mode)) return fail_with(ENXIO);
  if (info.st_nlink != 1) return fail_with(EMLINK);
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) return fail_with(EPERM);
  return info.st_size > max ? fail_with(EFBIG) : 0;
}

static int send_all(int fd, long long max) {
  char line[32];
  for (long long sent = 0;;) {
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return (int)n;
    /* The file may have grown since it was checked. */
    if ((sent += n) > max) return fail_with(EFBIG);
    snprintf(line, sizeof line, "data %zd\n", n);
    write_whole(CONTROL_FD, line, strlen(line));
    write_whole(CONTROL_FD, chunk, (size_t)n);
  }
}

int send_artifact(int scratch, char *request) {
  char *name;
  long long max = cut_number(request);
  if (scratch < 0 || max < 0) return fail_with(EINVAL);
  int folder = open_parent(scratch, request, &name);
  if (folder < 0) return -1;
  /* O_NONBLOCK: opening a FIFO without a writer would block. */
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  int error = errno;
  close(folder);
  if (fd < 0) return fail_with(error);
  int result = check_file(fd, max) < 0 ? -1 : send_all(fd, max);
  error = errno;
  close(fd);
  return result < 0 ? fail_with(error) : 0;
}

int receive_artifact(int scratch, char *request, const char *rest, size_t length, size_t *taken) {
  char *name;
  long long left = cut_number(request);
  int folder = scratch < 0 || left < 0 ? fail_with(EINVAL) : open_parent(scratch, request, &name);
  int fd = folder < 0 ? -1 : openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  int error = fd < 0 ? errno : 0;
  if (folder >= 0) close(folder);
  *taken = left < 0 ? 0 : (size_t)left < length ? (size_t)left : length;
  if (error == 0 && write(fd, rest, *taken) != (ssize_t)*taken) error = ENOSPC;
  for (left -= (long long)*taken; left > 0;) {
    size_t n = (size_t)left < sizeof chunk ? (size_t)left : sizeof chunk;
    read_whole(CONTROL_FD, chunk, n);
    left -= (long long)n;
    if (error == 0 && write(fd, chunk, n) != (ssize_t)n) error = ENOSPC;
  }
  if (fd >= 0) close(fd);
  return error == 0 ? 0 : fail_with(error);
}

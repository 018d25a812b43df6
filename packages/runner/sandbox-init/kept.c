/*
 * The folders that a plugin keeps from one process to the next have no file system of their own, so nothing but a look
 * at them bounds them all together. PID 1 looks before the start and then again and again: often while that is quick,
 * less often where there is much to look at, so that it never takes more than a twentieth of one processor. It has the
 * plugin's own rights, and what it cannot see it takes for too much. Files that are deleted but still open count too.
 * Between two looks more can be written than there is room for; that is why the next start is refused then.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-init.h"

#define MAX_KEPT 8
#define MAX_DEPTH 64
#define MAX_DELETED 1024
#define SOONEST_MS 500
#define SHARE 20

static struct { const char *path; unsigned long long bytes, files; } kept[MAX_KEPT];
static int kept_count;

struct sum {
  unsigned long long bytes, files, most_files;
  int hidden;
};

/* `BYTES FILES PATH` */
void add_kept(char *text) {
  char *rest;
  if (kept_count == MAX_KEPT) _exit(126);
  kept[kept_count].bytes = strtoull(text, &rest, 10);
  kept[kept_count].files = strtoull(rest, &rest, 10);
  if (rest[0] != ' ' || rest[1] != '/') _exit(126);
  kept[kept_count++].path = rest + 1;
}

static void add_tree(int folder, int depth, struct sum *sum) {
  DIR *entries = fdopendir(folder);
  if (entries == NULL) {
    close(folder);
    sum->hidden = 1;
    return;
  }
  struct stat info;
  for (struct dirent *entry; !sum->hidden && (entry = readdir(entries)) != NULL;) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
      /* Gone already, or in a folder that may be listed and not entered. */
      if (errno != ENOENT) sum->hidden = 1;
      continue;
    }
    sum->bytes += (unsigned long long)info.st_blocks * 512;
    /* Enough is known. */
    if (++sum->files > sum->most_files) break;
    if (!S_ISDIR(info.st_mode)) continue;
    int next = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) continue;
    if (next < 0 || depth == MAX_DEPTH) {
      if (next >= 0) close(next);
      sum->hidden = 1;
    } else add_tree(next, depth + 1, sum);
  }
  closedir(entries);
}

/* Of one process, those that are below `path` and have no name any more; each once. */
static void add_deleted(const char *pid, const char *path, struct sum *sum, ino_t *seen, int *count) {
  char name[320], target[4200];
  size_t length = strlen(path);
  snprintf(name, sizeof name, "/proc/%s/fd", pid);
  DIR *fds = opendir(name);
  if (fds == NULL) return;
  for (struct dirent *entry; (entry = readdir(fds)) != NULL;) {
    struct stat info;
    ssize_t n = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
    if (n <= (ssize_t)length || strncmp(target, path, length) != 0 || target[length] != '/') continue;
    if (fstatat(dirfd(fds), entry->d_name, &info, 0) < 0 || !S_ISREG(info.st_mode) || info.st_nlink != 0) continue;
    int known = 0;
    for (int i = 0; i < *count && !known; i++) known = seen[i] == info.st_ino;
    if (known) continue;
    if (*count == MAX_DELETED) {
      sum->hidden = 1;
      break;
    }
    seen[(*count)++] = info.st_ino;
    sum->bytes += (unsigned long long)info.st_blocks * 512;
    sum->files++;
  }
  closedir(fds);
}

static int is_too_much(int at) {
  static ino_t seen[MAX_DELETED];
  struct sum sum = {0, 0, kept[at].files, 0};
  int count = 0, folder = open(kept[at].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return 1;
  add_tree(folder, 0, &sum);
  DIR *processes = opendir("/proc");
  for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
    /* All but ourselves. */
    if (atoi(entry->d_name) > 1) add_deleted(entry->d_name, kept[at].path, &sum, seen, &count);
  }
  if (processes != NULL) closedir(processes);
  return sum.hidden || sum.bytes > kept[at].bytes || sum.files > kept[at].files;
}

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int kept_is_full(int *wait_ms) {
  static long long next;
  *wait_ms = -1;
  if (kept_count == 0) return 0;
  long long from = now_ms();
  if (from >= next) {
    for (int i = 0; i < kept_count; i++) {
      if (is_too_much(i)) return 1;
    }
    long long took = now_ms() - from;
    next = from + took + (took * SHARE > SOONEST_MS ? took * SHARE : SOONEST_MS);
  }
  *wait_ms = (int)(next - now_ms()) + 1;
  if (*wait_ms < 1) *wait_ms = 1;
  return 0;
}

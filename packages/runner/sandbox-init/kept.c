/*
 * Limits for the persistent folders of a plugin. They have no file system of their own, so PID 1 measures them
 * before the start and then repeatedly: often if that is fast, less often for large folders, so that it uses
 * at most a twentieth of one processor. It has the plugin's own rights; a folder that it cannot read counts as full.
 * Deleted files that are still open or mapped count as well, but not those in transit through a socket, which
 * cannot be seen. Between two measurements the plugin can write more than is allowed; it is then killed at the next
 * measurement, or its next start is refused.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-init.h"

#define MAX_KEPT 8
#define MAX_DEPTH 64
#define MAX_DELETED 1024
#define MIN_INTERVAL_MS 500
#define PAUSE_FACTOR 20
#define MAX_EXIT_CHECKS 10
#define MAX_ASSUMED_BYTES (1ULL << 50)

static struct { const char *path; unsigned long long bytes, files; } kept[MAX_KEPT];
static int kept_count;

struct sum {
  unsigned long long bytes, files, max_files;
  int hidden, seen_count;
  dev_t device;
  struct { dev_t device; ino_t inode; } seen[MAX_DELETED];
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
      /* ENOENT: the entry was removed meanwhile. Another error, as in a folder that cannot be entered, hides files. */
      if (errno != ENOENT) sum->hidden = 1;
      continue;
    }
    sum->bytes += (unsigned long long)info.st_blocks * 512;
    /* The limit is exceeded; the rest does not matter. */
    if (++sum->files > sum->max_files) break;
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

static void add_once(struct sum *sum, dev_t device, ino_t inode, unsigned long long bytes) {
  for (int i = 0; i < sum->seen_count; i++) {
    if (sum->seen[i].inode == inode && sum->seen[i].device == device) return;
  }
  if (sum->seen_count == MAX_DELETED) {
    sum->hidden = 1;
    return;
  }
  sum->seen[sum->seen_count].device = device;
  sum->seen[sum->seen_count++].inode = inode;
  sum->bytes += bytes;
  sum->files++;
}

static int is_below(const char *path, const char *target) {
  size_t length = strlen(path);
  return strncmp(target, path, length) == 0 && target[length] == '/';
}

/*
 * Adds deleted files that are still open and are on the folder's device or have a path below the folder. A path that
 * is too long to read counts as below it.
 */
static void add_deleted(DIR *fds, const char *path, struct sum *sum) {
  char target[4200];
  for (struct dirent *entry; (entry = readdir(fds)) != NULL;) {
    struct stat info;
    if (fstatat(dirfd(fds), entry->d_name, &info, 0) < 0 || !S_ISREG(info.st_mode) || info.st_nlink != 0) continue;
    if (info.st_dev != sum->device) {
      ssize_t n = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
      target[n < 0 ? 0 : n] = '\0';
      if (n >= 0 && !is_below(path, target)) continue;
    }
    add_once(sum, info.st_dev, info.st_ino, (unsigned long long)info.st_blocks * 512);
  }
}

/* Like a descriptor, a mapping keeps a deleted file, but it does not show the size, so the maximum size is assumed. */
static void add_mapped(FILE *maps, const char *path, struct sum *sum) {
  char *line = NULL;
  size_t space = 0;
  struct rlimit max;
  if (getrlimit(RLIMIT_FSIZE, &max) < 0 || max.rlim_cur > MAX_ASSUMED_BYTES) max.rlim_cur = MAX_ASSUMED_BYTES;
  for (ssize_t n; (n = getline(&line, &space, maps)) > 0;) {
    static const char mark[] = " (deleted)\n";
    unsigned int major, minor;
    unsigned long long inode;
    int at = 0;
    if (n < (ssize_t)sizeof mark || strcmp(line + n - (sizeof mark - 1), mark) != 0) continue;
    if (sscanf(line, "%*s %*s %*s %x:%x %llu %n", &major, &minor, &inode, &at) != 3 || at == 0) continue;
    if (!is_below(path, line + at)) continue;
    /*
     * On some file systems this device differs from that of stat, so open files are also recognized by their inode.
     */
    int known = 0;
    for (int i = 0; i < sum->seen_count && !known; i++) known = sum->seen[i].inode == inode;
    if (!known) add_once(sum, makedev(major, minor), inode, max.rlim_cur);
  }
  free(line);
}

/* A task that has exited or is exiting holds no files and cannot be inspected. */
static int has_ended(const char *task) {
  char name[640], text[512];
  snprintf(name, sizeof name, "%s/stat", task);
  int file = open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 1;
  ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  text[n < 0 ? 0 : n] = '\0';
  const char *state = strrchr(text, ')');
  return state == NULL || strchr("ZX", state[2]) != NULL;
}

/* Each thread can have its own file table. A task that cannot be inspected counts as hiding files. */
static void add_task(const char *task, const char *path, struct sum *sum) {
  char name[640];
  snprintf(name, sizeof name, "%s/fd", task);
  for (int tries = 0;; tries++) {
    DIR *fds = opendir(name);
    if (fds != NULL) {
      add_deleted(fds, path, sum);
      closedir(fds);
      break;
    }
    if (errno == ENOENT || errno == ESRCH || has_ended(task)) return;
    if (tries == MAX_EXIT_CHECKS) {
      sum->hidden = 1;
      return;
    }
    /* While it exits, between freeing its memory and closing its files, a process cannot be inspected. */
    nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
  }
}

static void add_process(const char *pid, const char *path, struct sum *sum) {
  char name[320], task[600];
  snprintf(name, sizeof name, "/proc/%s/task", pid);
  DIR *tasks = opendir(name);
  if (tasks == NULL) return;
  for (struct dirent *entry; !sum->hidden && (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(task, sizeof task, "%s/%s", name, entry->d_name);
    add_task(task, path, sum);
  }
  rewinddir(tasks);
  /* All threads share the memory map, and the first may have exited. */
  for (struct dirent *entry; !sum->hidden && (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(task, sizeof task, "%s/%s/maps", name, entry->d_name);
    FILE *maps = fopen(task, "re");
    if (maps == NULL) continue;
    int first = fgetc(maps);
    if (first != EOF) {
      ungetc(first, maps);
      add_mapped(maps, path, sum);
    }
    fclose(maps);
    if (first != EOF) break;
  }
  closedir(tasks);
}

static int exceeds_limits(int at) {
  static struct sum sum;
  struct stat info;
  int folder = open(kept[at].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0 || fstat(folder, &info) < 0) return 1;
  sum.bytes = sum.files = 0;
  sum.max_files = kept[at].files;
  sum.hidden = sum.seen_count = 0;
  sum.device = info.st_dev;
  add_tree(folder, 0, &sum);
  DIR *processes = opendir("/proc");
  for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
    /* All processes but PID 1. */
    if (atoi(entry->d_name) > 1) add_process(entry->d_name, kept[at].path, &sum);
  }
  if (processes != NULL) closedir(processes);
  return sum.hidden || sum.bytes > kept[at].bytes || sum.files > kept[at].files;
}

int kept_is_full(int *wait_ms) {
  static long long next;
  *wait_ms = -1;
  if (kept_count == 0) return 0;
  long long from = now_ms();
  if (from >= next) {
    for (int i = 0; i < kept_count; i++) {
      if (exceeds_limits(i)) return 1;
    }
    long long took = now_ms() - from;
    next = from + took + (took * PAUSE_FACTOR > MIN_INTERVAL_MS ? took * PAUSE_FACTOR : MIN_INTERVAL_MS);
  }
  *wait_ms = (int)(next - now_ms()) + 1;
  if (*wait_ms < 1) *wait_ms = 1;
  return 0;
}

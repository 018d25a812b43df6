/*
 * Builds the sandbox's whole root as root, so that bwrap has one thing to bind and sees nothing else of the machine:
 *   /root   what the plugin will see, put together step by step
 *   /proc   the host's, without which bwrap can neither map users nor mount a new one
 *   /tmp    where bwrap begins; /bwrap is the program, and /usr, /etc and the like lead into /root for its libraries
 * Everything happens in a private mount namespace that is left with these mounts alone, so nothing of it outlives the
 * process, however it ends. What is read-only here was made so by a more privileged user than any in the sandbox: the
 * kernel lets nobody in there take that back.
 *
 * Paths inside are walked part by part and never through a link, and a part is only ever made in our own tmpfs: what
 * lies in a bound folder may be a plugin's, and we are root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sandbox-init.h"

/* Is covered, and never a source: no binding may mount any of it. */
#define FOLDER "/sys"
#define SMALL "mode=0755,size=1m,nr_inodes=1024"

/* Of Linux 5.12, which is younger than many a C library. */
#define CALL_OPEN_TREE 428
#define CALL_MOVE_MOUNT 429
#define CALL_MOUNT_SETATTR 442
#define CLONE_TREE (1u | O_CLOEXEC | AT_EMPTY_PATH)
#define WHOLE_TREE 0x8000u
#define BY_DESCRIPTORS (0x4u | 0x40u)
#define READ_ONLY 0x1u
#define NO_SETUID 0x2u
#define NO_DEVICES 0x4u

static int inside = -1;
static dev_t ours;
static mode_t usual;

__attribute__((noreturn)) static void refuse(const char *path, int code) {
  errno = code;
  give_up(path);
}

static void set_attributes(int mounted, unsigned int how, uint64_t flags, const char *path) {
  struct { uint64_t set, clear, propagation, user_namespace; } attributes = {flags, 0, 0, 0};
  if (syscall(CALL_MOUNT_SETATTR, mounted, "", AT_EMPTY_PATH | how, &attributes, sizeof attributes) < 0) give_up(path);
}

static void must_be_ours(int folder, const char *path) {
  struct stat info;
  if (fstat(folder, &info) < 0) give_up(path);
  if (info.st_dev != ours) refuse(path, EROFS);
}

/* One part of a path: what is there, or a new folder. */
static int step(int folder, const char *part, const char *path) {
  int next = openat(folder, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (next < 0 && errno == ENOENT) {
    must_be_ours(folder, path);
    if (mkdirat(folder, part, 0755) < 0) give_up(path);
    next = openat(folder, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  }
  if (next < 0) give_up(path);
  return next;
}

/* The folder that holds the last part of an absolute path, which `last` is set to. */
static int walk(const char *path, char *parts, size_t room, char **last) {
  if (path[0] != '/' || path[1] == '\0' || strlen(path) > room) refuse(path, EINVAL);
  strcpy(parts, path + 1);
  int folder = dup(inside);
  if (folder < 0) give_up(path);
  for (char *slash; (slash = strchr(parts, '/')) != NULL; parts = slash + 1) {
    *slash = '\0';
    if (parts[0] == '\0' || strcmp(parts, ".") == 0 || strcmp(parts, "..") == 0) refuse(path, EINVAL);
    int next = step(folder, parts, path);
    close(folder);
    folder = next;
  }
  if (parts[0] == '\0' || strcmp(parts, ".") == 0 || strcmp(parts, "..") == 0) refuse(path, EINVAL);
  *last = parts;
  return folder;
}

/* Where something is to be mounted: a folder, or for a file an empty one. */
static int place(const char *path, int is_folder) {
  char parts[PATH_ROOM], *last;
  struct stat info;
  int folder = walk(path, parts, sizeof parts, &last);
  if (!is_folder && faccessat(folder, last, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
    must_be_ours(folder, path);
    int made = openat(folder, last, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made < 0) give_up(path);
    close(made);
  }
  int found = step(folder, last, path);
  close(folder);
  if (fstat(found, &info) < 0) give_up(path);
  if (S_ISLNK(info.st_mode) || S_ISDIR(info.st_mode) != is_folder) refuse(path, ENOTDIR);
  return found;
}

static void mount_tmpfs(const char *path, unsigned long flags, const char *options) {
  char target[64];
  int at = place(path, 1);
  snprintf(target, sizeof target, "/proc/self/fd/%d", at);
  if (mount("tmpfs", target, "tmpfs", MS_NOSUID | flags, options) < 0) give_up(path);
  close(at);
}

/* A mount of the source that is nowhere yet, and has its bounds already. */
static int copy_of(const char *source, int how) {
  int tree = (int)syscall(CALL_OPEN_TREE, AT_FDCWD, source, CLONE_TREE | (how & BIND_WHOLE ? WHOLE_TREE : 0));
  if (tree < 0) give_up(source);
  uint64_t bounds = NO_SETUID | (how & BIND_WRITABLE ? 0 : READ_ONLY) | (how & BIND_DEVICE ? 0 : NO_DEVICES);
  set_attributes(tree, WHOLE_TREE, bounds, source);
  return tree;
}

static void attach(int tree, int at, const char *path) {
  if (at < 0 || syscall(CALL_MOVE_MOUNT, tree, "", at, "", BY_DESCRIPTORS) < 0) give_up(path);
  close(at);
  close(tree);
}

void bind_in(const char *source, const char *path, int how) {
  struct stat info;
  int tree = copy_of(source, how);
  if (fstat(tree, &info) < 0) give_up(source);
  attach(tree, place(path, S_ISDIR(info.st_mode)), path);
}

void link_in(const char *target, const char *path) {
  char parts[PATH_ROOM], *last;
  int folder = walk(path, parts, sizeof parts, &last);
  must_be_ours(folder, path);
  if (symlinkat(target, folder, last) < 0) give_up(path);
  close(folder);
}

void hide_in(const char *path) { mount_tmpfs(path, MS_RDONLY | MS_NODEV, "mode=0555,size=4k,nr_inodes=2"); }

void scratch_in(const char *path, const char *options) { mount_tmpfs(path, MS_NODEV, options); }

static void devices_in(void) {
  static const struct { const char *name, *path; unsigned int minor; } devices[] = {
    {"null", "/dev/null", 3}, {"zero", "/dev/zero", 5}, {"full", "/dev/full", 7},
    {"random", "/dev/random", 8}, {"urandom", "/dev/urandom", 9},
  };
  mount_tmpfs("/dev", 0, SMALL);
  int folder = openat(inside, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) give_up("/dev");
  dev_t root = ours;
  struct stat info;
  if (fstat(folder, &info) < 0) give_up("/dev");
  ours = info.st_dev;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    /* Who may not make a device, as in a container, may still show the host's. */
    if (mknodat(folder, devices[i].name, S_IFCHR | 0666, makedev(1, devices[i].minor)) < 0) {
      bind_in(devices[i].path, devices[i].path, BIND_DEVICE);
    }
  }
  if (symlinkat("/proc/self/fd", folder, "fd") < 0) give_up("/dev/fd");
  set_attributes(folder, WHOLE_TREE, READ_ONLY | NO_SETUID, "/dev");
  ours = root;
  close(folder);
}

void begin_root(void) {
  static const char *const shared[] = {"usr", "etc", "bin", "lib", "lib32", "lib64", "libx32"};
  struct stat info;
  char path[64], target[64];
  usual = umask(0);
  if (unshare(CLONE_NEWNS) < 0) give_up("unshare");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) give_up("mount /");
  if (mount("tmpfs", FOLDER, "tmpfs", MS_NOSUID | MS_NODEV, SMALL) < 0) give_up(FOLDER);
  if (mkdir(FOLDER "/root", 0755) < 0 || mkdir(FOLDER "/proc", 0755) < 0 || mkdir(FOLDER "/tmp", 0755) < 0) {
    give_up(FOLDER);
  }
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    snprintf(path, sizeof path, FOLDER "/%s", shared[i]);
    snprintf(target, sizeof target, "root/%s", shared[i]);
    if (symlink(target, path) < 0) give_up(path);
  }
  inside = open(FOLDER "/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (inside < 0 || fstat(inside, &info) < 0) give_up(FOLDER);
  ours = info.st_dev;
  /* bwrap mounts the sandbox's own there. */
  if (mkdirat(inside, "proc", 0755) < 0) give_up("/proc");
  devices_in();
}

void finish_root(const char *program) {
  int tool = open(FOLDER OUTER_PROGRAM, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  attach(copy_of(program, 0), tool, program);
  if (mount("/proc", FOLDER "/proc", NULL, MS_BIND, NULL) < 0) give_up("/proc");
  int top = open(FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (top < 0) give_up(FOLDER);
  set_attributes(top, 0, READ_ONLY, FOLDER);
  close(inside);
  if (fchdir(top) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) give_up("pivot_root");
  if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) give_up("the host's folders");
  close(top);
  umask(usual);
}

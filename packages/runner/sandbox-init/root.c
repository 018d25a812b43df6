/*
 * Builds the whole root file system of the sandbox in its own mount namespace and detaches everything else, so that
 * no mount outlives the processes in it. The mount namespace belongs to a more privileged user namespace than the
 * plugin's, so the kernel lets no process of the plugin mount, unmount or change anything.
 *
 * Paths in the new root are walked part by part without following links, and missing parts are created only in our
 * own tmpfs: a bound folder can belong to a plugin, and this code may run as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sandbox-init.h"

/* The new root is mounted over this folder. Neither the folder nor a part of it is ever the source of a bind. */
#define NEW_ROOT "/sys"
#define SMALL_TMPFS "mode=0755,size=1m,nr_inodes=1024"

/* Numbers and flags of system calls that many C libraries do not define. mount_setattr is new in Linux 5.12. */
#define CALL_OPEN_TREE 428
#define CALL_MOVE_MOUNT 429
#define CALL_MOUNT_SETATTR 442
#define CLONE_TREE (1u | O_CLOEXEC | AT_EMPTY_PATH)
#define WHOLE_TREE 0x8000u
#define BY_DESCRIPTORS (0x4u | 0x40u)
#define READ_ONLY 0x1u
#define NO_SETUID 0x2u
#define NO_DEVICES 0x4u

static int new_root = -1;
static dev_t own_device;
static mode_t saved_umask;

static void set_attributes(int mounted, unsigned int how, uint64_t flags, const char *path) {
  struct { uint64_t set, clear, propagation, user_namespace; } attributes = {flags, 0, 0, 0};
  if (syscall(CALL_MOUNT_SETATTR, mounted, "", AT_EMPTY_PATH | how, &attributes, sizeof attributes) < 0) fail(path);
}

static void require_own_device(int folder, const char *path) {
  struct stat info;
  if (fstat(folder, &info) < 0) fail(path);
  if (info.st_dev != own_device) refuse(path, EROFS);
}

/* Opens one part of a path, or creates a folder. */
static int open_or_create(int folder, const char *part, const char *path) {
  int next = openat(folder, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (next < 0 && errno == ENOENT) {
    require_own_device(folder, path);
    if (mkdirat(folder, part, 0755) < 0) fail(path);
    next = openat(folder, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  }
  if (next < 0) fail(path);
  return next;
}

/* Closes a folder that `walk` returned, except the new root. */
static void close_folder(int folder) {
  if (folder != new_root) close(folder);
}

/* Opens the folder that contains the last part of an absolute path and sets `last` to that part. */
static int walk(const char *path, char *parts, size_t space, char **last) {
  if (path[0] != '/' || path[1] == '\0' || strlen(path) > space) refuse(path, EINVAL);
  strcpy(parts, path + 1);
  int folder = new_root;
  for (char *slash; (slash = strchr(parts, '/')) != NULL; parts = slash + 1) {
    *slash = '\0';
    if (parts[0] == '\0' || strcmp(parts, ".") == 0 || strcmp(parts, "..") == 0) refuse(path, EINVAL);
    int next = open_or_create(folder, parts, path);
    close_folder(folder);
    folder = next;
  }
  if (parts[0] == '\0' || strcmp(parts, ".") == 0 || strcmp(parts, "..") == 0) refuse(path, EINVAL);
  *last = parts;
  return folder;
}

/* Opens a mount point: a folder, or an empty file. */
static int open_mount_point(const char *path, int is_folder) {
  char parts[PATH_BYTES], *last;
  struct stat info;
  int folder = walk(path, parts, sizeof parts, &last);
  if (!is_folder && faccessat(folder, last, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
    require_own_device(folder, path);
    int made = openat(folder, last, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made < 0) fail(path);
    close(made);
  }
  int found = open_or_create(folder, last, path);
  close_folder(folder);
  if (fstat(found, &info) < 0) fail(path);
  if (S_ISLNK(info.st_mode) || S_ISDIR(info.st_mode) != is_folder) refuse(path, ENOTDIR);
  return found;
}

static void mount_tmpfs(const char *path, unsigned long flags, const char *options) {
  char target[64];
  int at = open_mount_point(path, 1);
  snprintf(target, sizeof target, "/proc/self/fd/%d", at);
  if (mount("tmpfs", target, "tmpfs", MS_NOSUID | flags, options) < 0) fail(path);
  close(at);
}

/* Returns a detached mount of the source with its restrictions already set. */
static int clone_mount(const char *source, int how) {
  int tree = (int)syscall(CALL_OPEN_TREE, AT_FDCWD, source, CLONE_TREE | (how & BIND_WHOLE ? WHOLE_TREE : 0));
  if (tree < 0) fail(source);
  uint64_t bounds = NO_SETUID | (how & BIND_WRITABLE ? 0 : READ_ONLY) | (how & BIND_DEVICE ? 0 : NO_DEVICES);
  set_attributes(tree, WHOLE_TREE, bounds, source);
  return tree;
}

static void attach(int tree, int at, const char *path) {
  if (at < 0 || syscall(CALL_MOVE_MOUNT, tree, "", at, "", BY_DESCRIPTORS) < 0) fail(path);
  close(at);
  close(tree);
}

void add_bind(const char *source, const char *path, int how) {
  struct stat info;
  int tree = clone_mount(source, how);
  if (fstat(tree, &info) < 0) fail(source);
  attach(tree, open_mount_point(path, S_ISDIR(info.st_mode)), path);
}

void add_link(const char *target, const char *path) {
  char parts[PATH_BYTES], *last;
  int folder = walk(path, parts, sizeof parts, &last);
  require_own_device(folder, path);
  if (symlinkat(target, folder, last) < 0) fail(path);
  close_folder(folder);
}

void add_hidden(const char *path) { mount_tmpfs(path, MS_RDONLY | MS_NODEV, "mode=0555,size=4k,nr_inodes=2"); }

void add_scratch(const char *path, const char *options) { mount_tmpfs(path, MS_NODEV, options); }

static void add_devices(void) {
  static const struct { const char *name, *path; unsigned int minor; } devices[] = {
    {"null", "/dev/null", 3}, {"zero", "/dev/zero", 5}, {"full", "/dev/full", 7},
    {"random", "/dev/random", 8}, {"urandom", "/dev/urandom", 9},
  };
  mount_tmpfs("/dev", 0, SMALL_TMPFS);
  int folder = openat(new_root, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) fail("/dev");
  dev_t root = own_device;
  struct stat info;
  if (fstat(folder, &info) < 0) fail("/dev");
  own_device = info.st_dev;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    /* Without permission to create devices, as in a container, the host's devices are bound instead. */
    if (mknodat(folder, devices[i].name, S_IFCHR | 0666, makedev(1, devices[i].minor)) < 0) {
      add_bind(devices[i].path, devices[i].path, BIND_DEVICE);
    }
  }
  if (symlinkat("/proc/self/fd", folder, "fd") < 0) fail("/dev/fd");
  set_attributes(folder, WHOLE_TREE, READ_ONLY | NO_SETUID, "/dev");
  own_device = root;
  close(folder);
}

void begin_root(void) {
  struct stat info;
  saved_umask = umask(0);
  /* Nothing that is mounted here reaches the host. */
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) fail("mount /");
  if (mount("tmpfs", NEW_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, SMALL_TMPFS) < 0) fail(NEW_ROOT);
  new_root = open(NEW_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (new_root < 0 || fstat(new_root, &info) < 0) fail(NEW_ROOT);
  own_device = info.st_dev;
  if (mkdirat(new_root, "proc", 0755) < 0) fail("/proc");
  /* The new /proc shows the PID namespace of this process. */
  if (mount("proc", NEW_ROOT "/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
    fail("mount /proc");
  }
  add_devices();
}

void finish_root(void) {
  set_attributes(new_root, 0, READ_ONLY, NEW_ROOT);
  if (fchdir(new_root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) fail("pivot_root");
  /* Both roots are now in the same place, the host's on top. */
  if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) fail("the host's folders");
  close(new_root);
  umask(saved_umask);
}

/*
 * Makes raw system calls. The arguments are the numbers of forbidden calls, which must fail with EPERM; sockets of
 * forbidden families must fail with EAFNOSUPPORT, and unknown calls with ENOSYS. With the argument `int80` or `x32`, it
 * makes one call through the ABI of another architecture instead.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int tries, hits;
static char found[8192];

static void expect(const char *name, long number, long result, int error, int wanted) {
  tries++;
  if (result == -1 && error == wanted) return;
  char line[128];
  snprintf(line, sizeof line, "%s\"%s %ld: %ld errno %d\"", hits++ ? "," : "", name, number, result, error);
  strncat(found, line, sizeof found - strlen(found) - 1);
}

static void call(const char *name, long number, int wanted, long a, long b, long c) {
  errno = 0;
  long result = syscall(number, a, b, c, 0L, 0L, 0L);
  expect(name, number, result, errno, wanted);
}

int main(int argc, char **argv) {
#ifdef __x86_64__
  if (argc > 1 && strcmp(argv[1], "int80") == 0) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
    printf("{\"tries\":1,\"hits\":[\"int80 returned %ld\"]}\n", result);
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "x32") == 0) {
    long result = syscall(0x40000000L | SYS_getpid);
    printf("{\"tries\":1,\"hits\":[\"x32 returned %ld\"]}\n", result);
    return 0;
  }
#endif
  for (int i = 1; i < argc; i++) call("forbidden", atol(argv[i]), EPERM, 0, 0, 0);
  for (long flag = 1; flag <= 0x40000000L; flag <<= 1) {
    if ((flag & 0x7e020000L) == 0) continue;
    call("clone", SYS_clone, EPERM, flag | SIGCHLD, 0, 0);
  }
  call("clone3", 435, ENOSYS, 0, 0, 0);
  call("unknown", 463, ENOSYS, 0, 0, 0);
  call("unknown", 500, ENOSYS, 0, 0, 0);
  int families[] = {AF_PACKET, AF_VSOCK, AF_ALG, AF_BLUETOOTH, AF_KEY, AF_XDP, AF_CAN, AF_TIPC, AF_RDS, AF_NFC, AF_PPPOX};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    call("socket", SYS_socket, EAFNOSUPPORT, families[i], SOCK_DGRAM, 0);
  }
  call("netfilter", SYS_socket, EAFNOSUPPORT, AF_NETLINK, SOCK_RAW, 12);
  char letter = 'x';
  call("TIOCSTI", SYS_ioctl, EPERM, 0, TIOCSTI, (long)&letter);
  printf("{\"tries\":%d,\"hits\":[%s]}\n", tries, found);
  return 0;
}

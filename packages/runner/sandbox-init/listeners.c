/*
 * The egress listeners. They are opened in the sandbox's own network namespace and sent to the gateway over Node's IPC
 * channel: one line with the descriptor attached, the next after Node's acknowledgement. The channel is closed before
 * the plugin's code runs, because its messages are trusted.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-init.h"

#define BACKLOG 512

static const char *wanted[MAX_LISTENERS];
static int opened[MAX_LISTENERS];
static int count;

void add_listener(const char *text) {
  if (count == MAX_LISTENERS) _exit(126);
  wanted[count++] = text;
}

/* `ADDRESS PORT` */
static int open_listener(const char *text) {
  char address[INET6_ADDRSTRLEN];
  union {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
  } at;
  int one = 1;
  const char *space = strchr(text, ' ');
  if (space == NULL || (size_t)(space - text) >= sizeof address) _exit(126);
  memcpy(address, text, (size_t)(space - text));
  address[space - text] = '\0';
  memset(&at, 0, sizeof at);
  int family = strchr(address, ':') == NULL ? AF_INET : AF_INET6;
  at.any.sa_family = (sa_family_t)family;
  void *bytes = family == AF_INET ? (void *)&at.four.sin_addr : (void *)&at.six.sin6_addr;
  if (inet_pton(family, address, bytes) != 1) _exit(126);
  /* The port is at the same offset in both structures. */
  at.four.sin_port = htons((uint16_t)strtoul(space + 1, NULL, 10));
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0) fail(text);
  if (bind(fd, &at.any, family == AF_INET ? sizeof at.four : sizeof at.six) < 0) fail(text);
  if (listen(fd, BACKLOG) < 0) fail(text);
  return fd;
}

static void wait_for(short events) {
  struct pollfd channel = {CHANNEL_FD, events, 0};
  while (poll(&channel, 1, -1) < 0 && errno == EINTR) continue;
}

static void send_listener(int index, int fd) {
  char line[96], space[CMSG_SPACE(sizeof fd)];
  int length = snprintf(line, sizeof line,
                        "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Server\",\"msg\":{\"listener\":%d}}\n", index);
  struct iovec payload = {line, (size_t)length};
  struct msghdr message = {.msg_iov = &payload, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  memset(space, 0, sizeof space);
  struct cmsghdr *control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(control), &fd, sizeof fd);
  for (;;) {
    ssize_t n = sendmsg(CHANNEL_FD, &message, MSG_NOSIGNAL);
    if (n == length) return;
    if (n >= 0 || (errno != EAGAIN && errno != EINTR)) fail("the gateway did not accept a listener");
    wait_for(POLLOUT);
  }
}

static void wait_for_acknowledgement(void) {
  char text[256];
  for (;;) {
    ssize_t n = read(CHANNEL_FD, text, sizeof text);
    if (n > 0 && memchr(text, '\n', (size_t)n) != NULL) return;
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n == 0 || errno != EAGAIN) _exit(126);
    wait_for(POLLIN);
  }
}

/*
 * The loopback interface of a new network namespace is down. If it is up, this network belongs to others, and the
 * routes of trace.c would cut them off.
 */
void raise_loopback(void) {
  struct ifreq request;
  memset(&request, 0, sizeof request);
  strcpy(request.ifr_name, "lo");
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0) fail("loopback");
  if (request.ifr_flags & IFF_UP) refuse("a network in use", EBUSY);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(fd, SIOCSIFFLAGS, &request) < 0) fail("loopback");
  close(fd);
}

/* Low ports need a capability that PID 1 drops before it sends the listeners. */
void open_listeners(void) {
  for (int i = 0; i < count; i++) opened[i] = open_listener(wanted[i]);
}

void send_listeners(void) {
  for (int i = 0; i < count; i++) {
    send_listener(i, opened[i]);
    wait_for_acknowledgement();
    close(opened[i]);
  }
  close(CHANNEL_FD);
}

/*
 * Reports refused connections to the gateway. A sandbox has no network but its own, and only the process itself learns
 * from the kernel that an address cannot be reached. So every address is local here: the kernel answers an attempt
 * that no socket accepts with a TCP reset or an ICMP error, and raw sockets of PID 1 receive a copy of the answer.
 * The answer exists before the attempt fails, so a report that is requested after a failure includes it.
 *
 * Nothing is decided here, and no memory of the plugin is read. The plugin can cause any number of answers: they are
 * counted per target, and a report names a limited number of targets.
 *
 * Multicast and broadcast addresses stay unreachable, because the kernel does not answer datagrams to them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/icmp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-init.h"

#define MAX_TARGETS 64
#define MAX_QUESTION 256
/* The kernel doubles this size, but limits it to twice its rmem_max: usually space for 500 answers per socket. */
#define BUFFER_BYTES (512 * 1024)
/* The buffer holds fewer answers, so the limit matters only while a plugin keeps causing more. */
#define MAX_ANSWERS 4096
#define PAUSE_MS 100

/* Space for the attributes of one route, in bytes. */
#define MAX_ATTRIBUTES 96

#define LOOPBACK_INDEX 1
#define DNS_PORT 53
#define DNS_HEADER 12
#define UDP_HEADER 8
#define ICMP_HEADER 8
#define IPV4_HEADER 20
#define IPV6_HEADER 40

/* Constants that some C libraries do not define. */
#define OPTION_ICMP_FILTER 1
#define OPTION_MEMORY_INFO 55
#define MEMORY_INFO_DROPS 8
#define ICMP6_UNREACHABLE 1
#define ICMP6_PORT_UNREACHABLE 4

struct target {
  int family, is_datagram;
  unsigned char address[16];
  uint16_t port;
  /* The bytes of a DNS query from its question section on. */
  size_t question_length;
  unsigned char question[MAX_QUESTION];
};

static struct { struct target target; unsigned long count; } targets[MAX_TARGETS];
static int target_count;
/*
 * Answers that are not counted per target, because there are too many targets or a buffer was full. When a buffer is
 * full, the kernel also counts other packets, so the number is an estimate.
 */
static unsigned long unlisted;

enum kind { TCP4, TCP6, ICMP4, ICMP6, KINDS };
static struct { enum kind kind; int fd; uint32_t drops; } sockets[KINDS];
static int socket_count;
static int failure;
static long long quiet_until;

/* A reset that answers a SYN has the sequence number 0 (RFC 9293, 3.10.7.1); the reset of a connection does not. */
#define REFUSED_SYN(mode) \
  BPF_STMT(BPF_LD | BPF_B | (mode), 13), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x14), \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x14, 0, 3), BPF_STMT(BPF_LD | BPF_W | (mode), 4), \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)

static int select_answers(int fd, enum kind kind) {
  /* With IPv4 the packet starts with the IP header, with IPv6 after it. */
  static struct sock_filter ipv4_filter[] = {BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), REFUSED_SYN(BPF_IND)};
  static struct sock_filter ipv6_filter[] = {REFUSED_SYN(BPF_ABS)};
  struct sock_fprog ipv4_program = {sizeof ipv4_filter / sizeof *ipv4_filter, ipv4_filter};
  struct sock_fprog ipv6_program = {sizeof ipv6_filter / sizeof *ipv6_filter, ipv6_filter};
  /* A set bit blocks its type. */
  uint32_t ipv4_types = ~(1u << ICMP_DEST_UNREACH), ipv6_types[8];
  memset(ipv6_types, 0xff, sizeof ipv6_types);
  ipv6_types[0] &= ~(1u << ICMP6_UNREACHABLE);
  if (kind == TCP4) return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &ipv4_program, sizeof ipv4_program);
  if (kind == TCP6) return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &ipv6_program, sizeof ipv6_program);
  if (kind == ICMP4) return setsockopt(fd, IPPROTO_RAW, OPTION_ICMP_FILTER, &ipv4_types, sizeof ipv4_types);
  return setsockopt(fd, IPPROTO_ICMPV6, OPTION_ICMP_FILTER, ipv6_types, sizeof ipv6_types);
}

static int open_socket(enum kind kind) {
  static const struct { int family, protocol; } arguments[KINDS] = {
    [TCP4] = {AF_INET, IPPROTO_TCP}, [TCP6] = {AF_INET6, IPPROTO_TCP},
    [ICMP4] = {AF_INET, IPPROTO_ICMP}, [ICMP6] = {AF_INET6, IPPROTO_ICMPV6},
  };
  int fd = socket(arguments[kind].family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, arguments[kind].protocol);
  int space = BUFFER_BYTES;
  if (fd < 0) return -1;
  sockets[socket_count].kind = kind;
  sockets[socket_count++].fd = fd;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &space, sizeof space) < 0) return -1;
  return select_answers(fd, kind);
}

static size_t add_attribute(unsigned char *at, unsigned short type, const void *value, size_t length) {
  struct rtattr attribute = {(unsigned short)RTA_LENGTH(length), type};
  memcpy(at, &attribute, sizeof attribute);
  memcpy(at + RTA_LENGTH(0), value, length);
  return RTA_SPACE(length);
}

/* Writes a route to `destination`/`bits`. A local route has the loopback address as its source. Returns its length. */
static size_t write_route(unsigned char *at, int family, const char *destination, unsigned char bits, unsigned char type) {
  struct { struct nlmsghdr header; struct rtmsg route; unsigned char attributes[MAX_ATTRIBUTES]; } request;
  unsigned char address[16];
  size_t length = family == AF_INET ? 4 : 16, used = 0;
  int loopback = LOOPBACK_INDEX;
  memset(&request, 0, sizeof request);
  inet_pton(family, destination, address);
  if (bits > 0) used += add_attribute(request.attributes, RTA_DST, address, length);
  if (type == RTN_LOCAL) {
    used += add_attribute(request.attributes + used, RTA_OIF, &loopback, sizeof loopback);
    inet_pton(family, family == AF_INET ? "127.0.0.1" : "::1", address);
    used += add_attribute(request.attributes + used, RTA_PREFSRC, address, length);
  }
  request.header.nlmsg_type = RTM_NEWROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL;
  request.header.nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof request.route) + used);
  request.route.rtm_family = (unsigned char)family;
  request.route.rtm_dst_len = bits;
  request.route.rtm_table = RT_TABLE_LOCAL;
  request.route.rtm_protocol = RTPROT_BOOT;
  request.route.rtm_scope = type == RTN_LOCAL ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
  request.route.rtm_type = type;
  memcpy(at, &request, request.header.nlmsg_len);
  return NLMSG_ALIGN(request.header.nlmsg_len);
}

/* The kernel has executed the requests when `send` returns, and answers only those that failed. */
static int add_routes(int netlink, int family) {
  unsigned char requests[3 * (NLMSG_LENGTH(sizeof(struct rtmsg)) + MAX_ATTRIBUTES)];
  struct { struct nlmsghdr header; struct nlmsgerr error; } answer;
  int is_ipv4 = family == AF_INET;
  size_t used = 0;
  if (is_ipv4) used += write_route(requests, family, "255.255.255.255", 32, RTN_UNREACHABLE);
  used += write_route(requests + used, family, is_ipv4 ? "224.0.0.0" : "ff00::", is_ipv4 ? 4 : 8, RTN_UNREACHABLE);
  used += write_route(requests + used, family, is_ipv4 ? "0.0.0.0" : "::", 0, RTN_LOCAL);
  if (send(netlink, requests, used, 0) < 0) return -1;
  ssize_t n = recv(netlink, &answer, sizeof answer, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN ? 0 : -1;
  errno = n < (ssize_t)sizeof answer ? EPROTO : -answer.error.error;
  return -1;
}

static int open_family(int netlink, int family) {
  int is_ipv4 = family == AF_INET;
  if (open_socket(is_ipv4 ? TCP4 : TCP6) < 0 || open_socket(is_ipv4 ? ICMP4 : ICMP6) < 0) return -1;
  return add_routes(netlink, family);
}

/* A socket without its filter would report every packet. */
static void close_sockets(int from) {
  while (socket_count > from) close(sockets[--socket_count].fd);
}

void open_trace(void) {
  int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (netlink < 0 || open_family(netlink, AF_INET) < 0) {
    failure = errno;
    close_sockets(0);
  } else {
    int ipv4_count = socket_count;
    /* A kernel without IPv6 has nothing to trace there. */
    if (open_family(netlink, AF_INET6) < 0) close_sockets(ipv4_count);
  }
  if (netlink >= 0) close(netlink);
}

int trace_failure(void) { return failure; }

static void count_answer(const struct target *target) {
  for (int i = 0; i < target_count; i++) {
    if (memcmp(&targets[i].target, target, sizeof *target) != 0) continue;
    targets[i].count++;
    return;
  }
  if (target_count == MAX_TARGETS) {
    unlisted++;
    return;
  }
  targets[target_count].target = *target;
  targets[target_count++].count = 1;
}

static uint16_t port_at(const unsigned char *at) { return (uint16_t)(at[0] << 8 | at[1]); }

/* `at` is the IP header of the datagram that an ICMP error repeats. */
static int read_datagram(struct target *target, const unsigned char *at, size_t length) {
  int is_ipv4 = target->family == AF_INET;
  if (length < (is_ipv4 ? IPV4_HEADER : IPV6_HEADER)) return 0;
  size_t header = is_ipv4 ? (at[0] & 15u) * 4 : IPV6_HEADER;
  if (at[is_ipv4 ? 9 : 6] != IPPROTO_UDP || header + UDP_HEADER > length) return 0;
  memcpy(target->address, at + (is_ipv4 ? 16 : 24), is_ipv4 ? 4 : 16);
  target->is_datagram = 1;
  target->port = port_at(at + header + 2);
  size_t before = header + UDP_HEADER + DNS_HEADER;
  if (target->port != DNS_PORT || length <= before) return 1;
  target->question_length = length - before < MAX_QUESTION ? length - before : MAX_QUESTION;
  memcpy(target->question, at + before, target->question_length);
  return 1;
}

static int read_answer(struct target *target, enum kind kind, const unsigned char *at, size_t length,
                       const struct sockaddr_in6 *sender) {
  memset(target, 0, sizeof *target);
  target->family = kind == TCP4 || kind == ICMP4 ? AF_INET : AF_INET6;
  size_t header = 0;
  if (target->family == AF_INET) {
    if (length < IPV4_HEADER) return 0;
    header = (at[0] & 15u) * 4;
  }
  if (length < header + ICMP_HEADER) return 0;
  if (kind == ICMP4 || kind == ICMP6) {
    if (at[header + 1] != (kind == ICMP4 ? ICMP_PORT_UNREACH : ICMP6_PORT_UNREACHABLE)) return 0;
    return read_datagram(target, at + header + ICMP_HEADER, length - header - ICMP_HEADER);
  }
  if (kind == TCP4) memcpy(target->address, at + 12, 4);
  else memcpy(target->address, &sender->sin6_addr, 16);
  target->port = port_at(at + header);
  return 1;
}

static void read_answers(int index) {
  static struct target target;
  unsigned char packet[2048];
  struct sockaddr_in6 sender;
  uint32_t memory[16];
  int fd = sockets[index].fd;
  for (int i = 0; i < MAX_ANSWERS; i++) {
    socklen_t size = sizeof sender;
    ssize_t n = recvfrom(fd, packet, sizeof packet, 0, (struct sockaddr *)&sender, &size);
    if (n < 0) break;
    if (read_answer(&target, sockets[index].kind, packet, (size_t)n, &sender)) count_answer(&target);
  }
  socklen_t size = sizeof memory;
  if (getsockopt(fd, SOL_SOCKET, OPTION_MEMORY_INFO, memory, &size) < 0 || size <= MEMORY_INFO_DROPS * 4) return;
  unlisted += memory[MEMORY_INFO_DROPS] - sockets[index].drops;
  sockets[index].drops = memory[MEMORY_INFO_DROPS];
}

static void send_target(const struct target *target, unsigned long count) {
  char line[128 + 2 * MAX_QUESTION], address[INET6_ADDRSTRLEN];
  inet_ntop(target->family, target->address, address, sizeof address);
  int used = snprintf(line, sizeof line, "refused %s %s %d %lu ", target->is_datagram ? "udp" : "tcp", address,
                      target->port, count);
  for (size_t i = 0; i < target->question_length; i++) used += sprintf(line + used, "%02x", target->question[i]);
  line[used++] = '\n';
  write_whole(CONTROL_FD, line, (size_t)used);
}

void send_refusals(void) {
  char line[64];
  for (int i = 0; i < socket_count; i++) read_answers(i);
  for (int i = 0; i < target_count; i++) send_target(&targets[i].target, targets[i].count);
  if (unlisted > 0) write_whole(CONTROL_FD, line, (size_t)snprintf(line, sizeof line, "unlisted %lu\n", unlisted));
  target_count = 0;
  unlisted = 0;
}

int watch_refusals(struct pollfd *watched, int *wait_ms) {
  long long pause = quiet_until - now_ms();
  if (pause > 0) {
    if (*wait_ms < 0 || *wait_ms > pause) *wait_ms = (int)pause;
    return 0;
  }
  for (int i = 0; i < socket_count; i++) watched[i] = (struct pollfd){sockets[i].fd, POLLIN, 0};
  return socket_count;
}

void send_watched_refusals(const struct pollfd *watched, int count) {
  int any = 0;
  for (int i = 0; i < count; i++) any |= watched[i].revents;
  if (any == 0) return;
  send_refusals();
  quiet_until = now_ms() + PAUSE_MS;
}

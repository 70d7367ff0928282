/* Small UDP datagrams at a steady rate, many to a system call, and who counts them.
 *
 *     datagrams send ADDRESS PORT BYTES PER_SECOND SECONDS     prints how many were sent
 *     datagrams receive PORT                                   prints how many came, after a second of silence
 *
 * BYTES are those of the IP packet. Both work without an offload that would make one packet of many. Errors end the
 * program with 1 and name the operation.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 16, HEADERS = 28, DATAGRAM_MOST = 1500, BUFFER_BYTES = 64 << 20, FIRST_S = 20, SILENCE_S = 1 };

static int send_all(const char *address, int port, int bytes, long per_second, int seconds);
static int receive(int port);
static double now(void);
static void fail(const char *operation);

int main(int argc, char **argv)
{
    if (argc == 7 && !strcmp(argv[1], "send"))
        return send_all(argv[2], atoi(argv[3]), atoi(argv[4]), atol(argv[5]), atoi(argv[6]));
    if (argc == 3 && !strcmp(argv[1], "receive"))
        return receive(atoi(argv[2]));
    fprintf(stderr, "usage: datagrams send ADDRESS PORT BYTES PER_SECOND SECONDS | receive PORT\n");
    return 2;
}

static int send_all(const char *address, int port, int bytes, long per_second, int seconds)
{
    static char data[DATAGRAM_MOST];
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct mmsghdr messages[BATCH] = { 0 };
    struct iovec part = { data, bytes - HEADERS };
    int out = socket(AF_INET, SOCK_DGRAM, 0);
    long sent = 0;

    if (bytes < HEADERS || bytes > DATAGRAM_MOST || per_second < 1 || inet_pton(AF_INET, address, &to.sin_addr) != 1) {
        fprintf(stderr, "datagrams: no such address, size or rate\n");
        return 2;
    }
    if (out < 0 || connect(out, (struct sockaddr *)&to, sizeof to))
        fail("connect");
    for (int i = 0; i < BATCH; i++)
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 };
    double begin = now();
    for (double at = begin; at < begin + seconds; at = now()) {
        long due = (long)((at - begin) * per_second);
        if (due - sent < BATCH) {
            nanosleep(&(struct timespec){ 0, 20000 }, NULL);
            continue;
        }
        int some = sendmmsg(out, messages, BATCH, 0);
        if (some < 0 && errno != ECONNREFUSED)
            fail("sendmmsg");
        sent += some > 0 ? some : 0;
    }
    printf("%ld\n", sent);
    return 0;
}

static int receive(int port)
{
    static char data[BATCH][DATAGRAM_MOST];
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct mmsghdr messages[BATCH] = { 0 };
    struct iovec parts[BATCH];
    struct timeval patience = { FIRST_S, 0 };
    int in = socket(AF_INET, SOCK_DGRAM, 0), buffer = BUFFER_BYTES;
    long came = 0;

    if (in < 0 || setsockopt(in, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer)
        || bind(in, (struct sockaddr *)&here, sizeof here))
        fail("bind");
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){ data[i], DATAGRAM_MOST };
        messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
    }
    for (;;) {
        if (setsockopt(in, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
            fail("setsockopt");
        int some = recvmmsg(in, messages, BATCH, MSG_WAITFORONE, NULL);
        if (some < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (some < 0)
            fail("recvmmsg");
        came += some;
        patience.tv_sec = SILENCE_S;
    }
    printf("%ld\n", came);
    return 0;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void fail(const char *operation)
{
    fprintf(stderr, "datagrams: %s: %s\n", operation, strerror(errno));
    exit(1);
}

// line CLIENT SERVER RTT_MS RATE_MBIT QUEUE_KIB LOSS_PER_MILLION [NUMBER]
//
// A line between two network namespaces: a TUN device in each, and between them a delay, a rate, a queue and a loss.
// TCP is the kernel's own. A rate of 0 is no bound. The client has the address 10.78.NUMBER.1, the server 10.78.NUMBER.2,
// and both the device "lineNUMBER". Lines of different numbers may have one client.
// SIGUSR1 makes the delay of what comes from then on twenty times as long. Prints "up" once packets pass, and ends with its parent.
//
// Bytes on the line are those of IP with 14 bytes of Ethernet for each packet of 1,500 bytes. With a loss no device
// joins packets, so that each is lost by itself.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RING = 1 << 16, LARGEST = 1 << 17, SEGMENT = 1448, IP_AND_TCP = 52, ETHERNET = 14 };

struct packet {
    int64_t due;
    ssize_t length;
    char bytes[];
};

// One direction. Its thread alone touches it.
struct direction {
    int in, out;
    struct packet *ring[RING];
    unsigned head, tail;
    int64_t line_free;
    uint64_t random;
};

static volatile int64_t delay_ns;
static int64_t queue_bytes, loss;
static double ns_a_byte;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t bytes_on_line(ssize_t length) {
    int64_t ip = length - (ssize_t)sizeof(struct virtio_net_hdr);
    int64_t body = ip > IP_AND_TCP ? ip - IP_AND_TCP : 0;
    int64_t segments = body > SEGMENT ? (body + SEGMENT - 1) / SEGMENT : 1;
    return ip + (segments - 1) * IP_AND_TCP + segments * ETHERNET;
}

// Takes a packet from the device, or drops it.
static void take(struct direction *d, const char *bytes, ssize_t length) {
    d->random = d->random * 6364136223846793005ULL + 1442695040888963407ULL;
    if (loss > 0 && (int64_t)((d->random >> 33) % 1000000) < loss)
        return;
    int64_t now = now_ns(), size = bytes_on_line(length);
    int64_t begins = d->line_free > now ? d->line_free : now;
    double waiting = ns_a_byte > 0 ? (double)(begins - now) / ns_a_byte : 0;
    if ((ns_a_byte > 0 && waiting + (double)size > (double)queue_bytes) || d->tail - d->head == RING)
        return;
    struct packet *p = malloc(sizeof *p + (size_t)length);
    if (p == NULL)
        fail("malloc");
    d->line_free = begins + (int64_t)((double)size * ns_a_byte);
    p->due = d->line_free + delay_ns;
    p->length = length;
    memcpy(p->bytes, bytes, (size_t)length);
    d->ring[d->tail++ % RING] = p;
}

static void slow_down(int signal) {
    (void)signal;
    delay_ns *= 20;
}

static void *carry(void *of) {
    struct direction *d = of;
    static __thread char bytes[LARGEST];
    struct sched_param first = {.sched_priority = 1};
    // A line waits for no processor, if the system allows it.
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        int64_t now = now_ns();
        while (d->head != d->tail && d->ring[d->head % RING]->due <= now) {
            struct packet *p = d->ring[d->head++ % RING];
            if (write(d->out, p->bytes, (size_t)p->length) < 0 && errno != EINVAL && errno != EIO)
                fail("write");
            free(p);
        }
        struct timespec wait, *until = NULL;
        if (d->head != d->tail) {
            int64_t left = d->ring[d->head % RING]->due - now_ns();
            left = left > 0 ? left : 0;
            wait = (struct timespec){left / 1000000000, left % 1000000000};
            until = &wait;
        }
        struct pollfd ready = {.fd = d->in, .events = POLLIN};
        if (ppoll(&ready, 1, until, NULL) < 0 && errno != EINTR)
            fail("ppoll");
        for (int n = 0; n < 32 && (ready.revents & POLLIN); n++) {
            ssize_t length = read(d->in, bytes, sizeof bytes);
            if (length <= 0)
                break;
            take(d, bytes, length);
        }
    }
    return NULL;
}

static void set(int s, unsigned long what, struct ifreq *r, const char *name) {
    if (ioctl(s, what, r) < 0)
        fail(name);
}

static void raise_device(int s, const char *device) {
    struct ifreq r = {0};
    strcpy(r.ifr_name, device);
    set(s, SIOCGIFFLAGS, &r, device);
    r.ifr_flags |= IFF_UP | IFF_RUNNING;
    set(s, SIOCSIFFLAGS, &r, device);
}

static char device_name[IFNAMSIZ];

static void address(int s, unsigned long what, const char *device, const char *text) {
    struct ifreq r = {0};
    strcpy(r.ifr_name, device);
    struct sockaddr_in *in = (struct sockaddr_in *)&r.ifr_addr;
    in->sin_family = AF_INET;
    inet_pton(AF_INET, text, &in->sin_addr);
    set(s, what, &r, text);
}

// The device of the line in a namespace.
static int device(const char *space, const char *ip) {
    char path[256];
    snprintf(path, sizeof path, "/var/run/netns/%s", space);
    int ns = open(path, O_RDONLY);
    if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
        fail(path);
    close(ns);
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (tun < 0)
        fail("/dev/net/tun");
    struct ifreq r = {0};
    strcpy(r.ifr_name, device_name);
    r.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    set(tun, TUNSETIFF, &r, "TUNSETIFF");
    if (ioctl(tun, TUNSETOFFLOAD, loss > 0 ? TUN_F_CSUM : TUN_F_CSUM | TUN_F_TSO4) < 0)
        fail("TUNSETOFFLOAD");
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    address(s, SIOCSIFADDR, device_name, ip);
    address(s, SIOCSIFNETMASK, device_name, "255.255.255.0");
    struct ifreq q = {0};
    strcpy(q.ifr_name, device_name);
    q.ifr_qlen = 10000;
    set(s, SIOCSIFTXQLEN, &q, "SIOCSIFTXQLEN");
    raise_device(s, device_name);
    raise_device(s, "lo");
    close(s);
    return tun;
}

int main(int count, char **words) {
    if (count != 7 && count != 8) {
        fprintf(stderr, "line CLIENT SERVER RTT_MS RATE_MBIT QUEUE_KIB LOSS_PER_MILLION [NUMBER]\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    delay_ns = (int64_t)(atof(words[3]) * 5e5);
    signal(SIGUSR1, slow_down);
    double rate = atof(words[4]) * 1e6;
    ns_a_byte = rate > 0 ? 8e9 / rate : 0;
    queue_bytes = atoll(words[5]) * 1024;
    loss = atoll(words[6]);
    int number = count == 8 ? atoi(words[7]) & 255 : 0;
    char near[32], far[32];
    snprintf(device_name, sizeof device_name, "line%d", number);
    snprintf(near, sizeof near, "10.78.%d.1", number);
    snprintf(far, sizeof far, "10.78.%d.2", number);
    int client = device(words[1], near), server = device(words[2], far);
    static struct direction both[2];
    both[0] = (struct direction){.in = client, .out = server, .random = 1};
    both[1] = (struct direction){.in = server, .out = client, .random = 2};
    pthread_t thread;
    for (int n = 0; n < 2; n++)
        if (pthread_create(&thread, NULL, carry, &both[n]) != 0)
            fail("pthread_create");
    printf("up\n");
    fflush(stdout);
    pthread_join(thread, NULL);
    return 0;
}

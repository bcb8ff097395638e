/* A net plug-in for tests: devices of the loopback interface, connected by TCP, that are as strict
 * as the interface allows. Compiled once per version of the ABI (-DVERSION=8 to 12; 7 and 0 export
 * no known table).
 *
 * A caller that breaks a rule of the interface gets ncclInvalidUsage and a warning, and is counted.
 * A message leaves only if the other side has posted a receive for it, so requests are sometimes
 * refused, as by real NICs. When the process ends, a line with all counts is appended to the file
 * TOPO_LOOPBACK_REPORT.
 *
 * TOPO_LOOPBACK_<FUNCTION>=CODE[:AFTER] lets a function fail, after AFTER successful calls.
 * TOPO_LOOPBACK_STALL=AFTER swallows all later messages, TOPO_LOOPBACK_KILL=AFTER kills the process
 * there. TOPO_LOOPBACK_ with DEVICES, NAME, LIMIT, RECEIVES, SPEED, BYTES and MEMORY changes the
 * reported properties. TOPO_LOOPBACK_FLUSH=1 withholds data received for GPU memory until a flush.
 * The same names without TOPO_LOOPBACK_ can be in -DSETTINGS="NAME=VALUE;...".
 *
 * GPU memory is ordinary memory here. Of a DMA-BUF the plug-in maps the file and uses nothing
 * else. */

#include "requests.h"

/* The rest differs between versions. */

#if VERSION >= 12
enum { TOGETHER = 8 };
#else
enum { TOGETHER = 4 };
#endif

struct properties {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
#if VERSION >= 9
    int forceFlush;
#endif
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType;
    int netDeviceVersion;
#if VERSION >= 9
    struct {
        int ndevs;
        int devs[TOGETHER];
    } vProps;
    size_t maxP2pBytes;
    size_t maxCollBytes;
#endif
#if VERSION >= 11
    int maxMultiRequestSize;
#endif
#if VERSION >= 12
    int16_t railId;
    int16_t planeId;
#endif
};

#if VERSION >= 8
_Static_assert(sizeof(struct properties) == (VERSION == 8 ? 64 : VERSION < 11 ? 104 : VERSION == 11 ? 112 : 128), "size");
#endif

struct config {
    int trafficClass;
};

static int l_get_properties(int device, struct properties *to) {
    static char names[8][16];
    NEED(device >= 0 && device < number("DEVICES", 2) && to, "getProperties of device %d", device);
    FAULT("GETPROPERTIES");
    char *name = names[device % 8];
    snprintf(name, sizeof names[0], "loop%d", device);
    const char *other = setting("NAME");
    if (other)
        name = strcmp(other, "null") == 0 ? NULL : strcmp(other, "latin1") == 0 ? (char *)"caf\xe9" : (char *)other;
    memset(to, 0, sizeof *to);
    to->name = name;
    to->pciPath = device == 0 ? "/sys/devices/pci0000:00/0000:00:05.0" : NULL;
    to->guid = 0x1234500000000000 + device;
    to->ptrSupport = number("MEMORY", 1);
    to->regIsGlobal = 0;
    to->speed = number("SPEED", 100000);
    to->port = 1 + device;
    to->latency = 1.5;
    to->maxComms = number("LIMIT", 1024);
    to->maxRecvs = number("RECEIVES", 1);
#if VERSION >= 9
    to->forceFlush = 1;
    to->vProps.ndevs = 1;
    to->vProps.devs[0] = device;
    to->maxP2pBytes = number("BYTES", 1 << 30);
    to->maxCollBytes = 1 << 30;
#endif
#if VERSION >= 11
    to->maxMultiRequestSize = 1;
#endif
#if VERSION >= 12
    to->railId = device;
    to->planeId = -1;
#endif
    return SUCCESS;
}

#if VERSION >= 11
static int context_object;
static int l_init(void **context, uint64_t communicator, struct config *config, logger_function log,
                  profiler_function profile) {
    logger = log;
    NEED(context && config && config->trafficClass == -1 && log && profile && communicator, "init without its arguments");
    *context = &context_object;
    started = 1;
    return init_common(log);
}
static int l_finalize(void *context) {
    ADD(finalizes, 1);
    NEED(context == &context_object, "finalize of another context");
    NEED(GET(open_sends) + GET(open_receives) + GET(open_listens) == 0, "finalize before all was closed");
    return SUCCESS;
}
static int l_set_attributes(void *context, void *attributes) {
    (void)context, (void)attributes;
    return SUCCESS;
}
static int l_listen(void *context, int device, void *handle, void **object) {
    NEED(context == &context_object, "listen in another context");
    return listen_common(device, handle, object);
}
static int l_connect(void *context, int device, void *handle, void **object, void **offload) {
    NEED(context == &context_object, "connect in another context");
    return connect_common(device, handle, object, offload);
}
#else
#if VERSION == 10
static int l_init(logger_function log, profiler_function profile) {
    logger = log;
    NEED(log && profile, "init without its arguments");
#else
static int l_init(logger_function log) {
    logger = log;
    NEED(log, "init without a logger");
#endif
    NEED(!started, "init for a second time");
    int code = init_common(log);
    started = code == SUCCESS;
    return code;
}
static int l_listen(int device, void *handle, void **object) { return listen_common(device, handle, object); }
#if VERSION == 10
static int l_connect(int device, struct config *config, void *handle, void **object, void **offload) {
    NEED(config && config->trafficClass == -1, "connect without its arguments");
#else
static int l_connect(int device, void *handle, void **object, void **offload) {
#endif
    return connect_common(device, handle, object, offload);
}
#endif

#if VERSION >= 10
static int l_send(void *of, void *data, size_t size, int tag, void *handle, void *parent, void **to) {
    NEED(parent == NULL, "isend for a profiler that is not there");
    return send_common(of, data, size, tag, handle, to);
}
static int l_receive(void *of, int n, void **data, size_t *sizes, int *tags, void **handles, void **parents, void **to) {
    NEED(sizes && parents && parents[0] == NULL, "irecv without its arguments");
    return receive_common(of, n, data, sizes[0], tags, handles, to);
}
#else
#if VERSION == 9
typedef size_t length;
#else
typedef int length;
#endif
static int l_send(void *of, void *data, length size, int tag, void *handle, void **to) {
    return send_common(of, data, size, tag, handle, to);
}
static int l_receive(void *of, int n, void **data, length *sizes, int *tags, void **handles, void **to) {
    NEED(sizes, "irecv without its arguments");
    return receive_common(of, n, data, sizes[0], tags, handles, to);
}
#endif

#if VERSION >= 9
static int l_make_together(int *device, void *properties) {
    (void)device, (void)properties;
    VIOLATION("makeVDevice, which nobody asked for");
}
#endif

struct table {
    const char *name;
    __typeof__(&l_init) init;
    __typeof__(&l_devices) devices;
    __typeof__(&l_get_properties) getProperties;
    __typeof__(&l_listen) listen;
    __typeof__(&l_connect) connect;
    __typeof__(&l_accept) accept;
    __typeof__(&l_register) regMr;
    __typeof__(&l_register_dma_buf) regMrDmaBuf;
    __typeof__(&l_deregister) deregMr;
    __typeof__(&l_send) isend;
    __typeof__(&l_receive) irecv;
    __typeof__(&l_flush) iflush;
    __typeof__(&l_test) test;
    __typeof__(&l_close_send) closeSend;
    __typeof__(&l_close_receive) closeRecv;
    __typeof__(&l_close_listen) closeListen;
    __typeof__(&l_get_device_registration) getDeviceMr;
    __typeof__(&l_receive_consumed) irecvConsumed;
#if VERSION >= 9
    __typeof__(&l_make_together) makeVDevice;
#endif
#if VERSION >= 11
    __typeof__(&l_finalize) finalize;
    __typeof__(&l_set_attributes) setNetAttr;
#endif
};

#define JOIN(a, b) a##b
#define SYMBOL(version) JOIN(ncclNetPlugin_v, version)

#if VERSION > 0
struct table SYMBOL(VERSION) = {
    .name = "Loopback",
    .init = l_init,
    .devices = l_devices,
    .getProperties = l_get_properties,
    .listen = l_listen,
    .connect = l_connect,
    .accept = l_accept,
    .regMr = l_register,
    .regMrDmaBuf = l_register_dma_buf,
    .deregMr = l_deregister,
#ifndef WITHOUT_ISEND
    .isend = l_send,
#endif
    .irecv = l_receive,
    .iflush = l_flush,
    .test = l_test,
    .closeSend = l_close_send,
    .closeRecv = l_close_receive,
    .closeListen = l_close_listen,
    .getDeviceMr = l_get_device_registration,
    .irecvConsumed = l_receive_consumed,
#if VERSION >= 9
    .makeVDevice = l_make_together,
#endif
#if VERSION >= 11
    .finalize = l_finalize,
    .setNetAttr = l_set_attributes,
#endif
};
#endif

#if VERSION == 12
/* Older tables beside it, of which only the symbols may be used. */
char ncclNetPlugin_v8[8];
char ncclNetPlugin_v7[8];
#endif

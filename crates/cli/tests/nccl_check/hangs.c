/* A library that looks like NCCL with the CUDA runtime inside, and never makes a communicator. */

#include <unistd.h>

#define RUNTIME(name)                                                                              \
    __attribute__((used, noinline)) static int cuda##name(volatile int *number) {                  \
        *number = *number * 3 + 1;                                                                 \
        *number = *number * 5 + 2;                                                                 \
        return *number;                                                                            \
    }

#define ANSWER(name)                                                                               \
    int nccl##name(void) { return 0; }

RUNTIME(GetDeviceCount)
RUNTIME(SetDevice)
RUNTIME(GetDevice)
RUNTIME(DriverGetVersion)
RUNTIME(RuntimeGetVersion)
RUNTIME(DeviceGetAttribute)
RUNTIME(DeviceGetPCIBusId)
RUNTIME(DeviceGetByPCIBusId)
RUNTIME(DeviceCanAccessPeer)
RUNTIME(DeviceEnablePeerAccess)
RUNTIME(DeviceSetLimit)
RUNTIME(DeviceSynchronize)
RUNTIME(GetLastError)
RUNTIME(PeekAtLastError)
RUNTIME(GetErrorString)
RUNTIME(GetErrorName)
RUNTIME(Malloc)
RUNTIME(MallocAsync)
RUNTIME(Free)
RUNTIME(FreeAsync)
RUNTIME(HostAlloc)
RUNTIME(MallocHost)
RUNTIME(FreeHost)
RUNTIME(HostRegister)
RUNTIME(HostUnregister)
RUNTIME(HostGetDevicePointer)
RUNTIME(Memcpy)
RUNTIME(MemcpyAsync)
RUNTIME(Memset)
RUNTIME(MemsetAsync)
RUNTIME(PointerGetAttributes)
RUNTIME(StreamCreate)
RUNTIME(StreamCreateWithFlags)
RUNTIME(StreamDestroy)
RUNTIME(StreamSynchronize)
RUNTIME(StreamQuery)
RUNTIME(StreamWaitEvent)
RUNTIME(EventCreate)
RUNTIME(EventDestroy)
RUNTIME(EventRecord)
RUNTIME(EventQuery)
RUNTIME(EventSynchronize)
RUNTIME(LaunchKernel)

int ncclGetVersion(int *version) {
    *version = 23007;
    return 0;
}

const char *ncclGetErrorString(int code) {
    return code ? "unhandled system error (run with NCCL_DEBUG=INFO for details)" : "done";
}

/* What another file does instead of hanging. */
__attribute__((weak)) int fail_to_start(void);

int ncclCommInitRank(void) {
    if (fail_to_start)
        return fail_to_start();
    (void)!write(2, "about to hang\n", 14);
    for (;;)
        pause();
}

ANSWER(GetUniqueId)
ANSWER(CommDestroy)
ANSWER(GroupStart)
ANSWER(GroupEnd)
ANSWER(AllReduce)
ANSWER(AllGather)
ANSWER(ReduceScatter)
ANSWER(Broadcast)
ANSWER(Reduce)
ANSWER(Send)
ANSWER(Recv)
ANSWER(MemAlloc)
ANSWER(RedOpCreatePreMulSum)
ANSWER(CommRegister)
ANSWER(CommWindowRegister)

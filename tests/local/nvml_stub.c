/* The functions of libnvidia-ml that Mooring calls, with answers from the environment. */
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char name[32];
} pci_t;

static unsigned int number(const char *name, unsigned int otherwise) {
    const char *text = getenv(name);
    return text ? (unsigned int)atoi(text) : otherwise;
}
int nvmlInit_v2(void) { return (int)number("STUB_NVML_INIT", 0); }
int nvmlInitWithFlags(unsigned int flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "Other"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = number("STUB_NVML_CARDS", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
    *handle = (void *)(unsigned long)(index + 1);
    return 0;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned int length) {
    strncpy(name, "Stub 24G", length);
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *use) {
    use->gpu = number("STUB_NVML_BUSY", 95);
    use->memory = 10;
    return (int)number("STUB_NVML_RATES", 0);
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    memory->total = 24ull << 30;
    memory->used = (unsigned long long)number("STUB_NVML_USED_GIB", 12) << 30;
    memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetPcieThroughput(void *handle, unsigned int counter, unsigned int *value) {
    *value = counter ? number("STUB_NVML_RX_KB", 5000000) : 400000;
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x3b + (unsigned int)(unsigned long)handle - 1;
    return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void *handle, unsigned int *generation) {
    *generation = 3;
    return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned int *width) {
    *width = number("STUB_NVML_LANES", 16);
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, void *infos) {
    *count = number("STUB_NVML_PROCESSES", 1);
    return *count ? 7 : 0;
}

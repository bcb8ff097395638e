/* The logger that plug-ins call like printf: formats a line and passes it on. */

#include <stdarg.h>
#include <stdio.h>

typedef void (*sink_function)(int level, unsigned long flags, const char *text);

static sink_function sink;

void topo_net_plugin_set_sink(sink_function to) {
    __atomic_store_n(&sink, to, __ATOMIC_RELEASE);
}

void topo_net_plugin_log(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)file;
    (void)line;
    sink_function to = __atomic_load_n(&sink, __ATOMIC_ACQUIRE);
    if (to == NULL || format == NULL)
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (written >= 0)
        to(level, flags, text);
}

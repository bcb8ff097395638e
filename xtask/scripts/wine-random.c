/* bcryptprimitives.dll with the one function that Rust's library calls. Wine has it from
   version 9 on. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T bytes)
{
    return RtlGenRandom(to, (ULONG)bytes);
}

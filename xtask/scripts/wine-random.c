/* bcryptprimitives.dll with the one function that Rust's library calls,
   for versions of Wine that lack it, such as 8.0. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T bytes)
{
    return RtlGenRandom(to, (ULONG)bytes);
}

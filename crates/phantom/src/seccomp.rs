//! A container's rule: Docker's default profile does not allow `pidfd_getfd`.

/// Lets `pidfd_getfd` fail with `EPERM` in all threads of this process and its children.
pub fn forbid_pidfd_getfd() {
    let statement = |code: u32, value: u32, yes: u8, no: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: yes,
        jf: no,
        k: value,
    };
    // The number of the call is the first word of `seccomp_data`.
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            u32::try_from(libc::SYS_pidfd_getfd).unwrap_or_default(),
            0,
            1,
        ),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs(),
            0,
            0,
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or_default(),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the filter during the call.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const filter,
            ) != 0
    };
    if refused {
        let error = std::io::Error::last_os_error();
        eprintln!("topo phantom: pidfd_getfd cannot be forbidden: {error}");
    }
}

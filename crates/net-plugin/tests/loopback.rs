//! A plug-in of each version, compiled here, that checks its caller; and broken plug-ins.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use net_plugin::{CallerMemory, Error, Owner, Plugin, PluginChoice, ReceiveComm, SendComm, Shape};
use tempfile::TempDir;
use testkit::network::loopback;

type Test = fn() -> Result<(), Failed>;

const TESTS: [(&str, Test); 15] = [
    ("messages_go_through_v8", || messages(8)),
    ("messages_go_through_v9", || messages(9)),
    ("messages_go_through_v10", || messages(10)),
    ("messages_go_through_v11", || messages(11)),
    ("messages_go_through_v12", || messages(12)),
    ("memory_of_devices_goes_through_v8", || of_devices(8)),
    ("memory_of_devices_goes_through_v12", || of_devices(12)),
    ("devices_are_described", devices_are_described),
    ("absurd_devices_are_refused", absurd_devices_are_refused),
    ("failures_name_the_function", failures_name_the_function),
    (
        "a_failure_in_the_middle_ends_the_connection",
        a_failure_in_the_middle,
    ),
    ("older_and_other_libraries_are_refused", older_libraries),
    ("a_missing_function_is_named", a_missing_function),
    ("limits_are_kept", limits_are_kept),
    ("a_list_is_tried_in_order", a_list_is_tried),
];

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let trial = |(name, test): (&'static str, Test)| {
        Trial::ignorable_test(name, move || {
            if loopback::can_compile() {
                test().map(|()| Completion::Completed)
            } else {
                Ok(Completion::ignored_with("not run: there is no C compiler"))
            }
        })
    };
    libtest_mimic::run(&arguments, TESTS.into_iter().map(trial).collect()).exit_code()
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn compile(folder: &TempDir, version: u32, settings: &str) -> Result<PathBuf, Failed> {
    let file = folder.path().join("libnccl-net-loopback.so");
    loopback::compile(version, settings, &[], &file).map_err(|error| error.to_string().into())
}

fn load(file: &Path) -> Result<Plugin, Error> {
    let wanted = PluginChoice::parse(&file.display().to_string())?;
    let plugin = Plugin::load(&wanted, 4711)?;
    plugin.ok_or_else(|| Error::Name("nothing was wanted".to_owned()))
}

const SHAPE: Shape = Shape {
    messages: 8,
    bytes: 10_000,
    tag: 5,
    memory: None,
};

/// Both ends of a connection from the second device to the first.
fn connect(plugin: &Plugin, shape: Shape) -> Result<(SendComm, ReceiveComm), Error> {
    let (mut listening, handle) = plugin.listen(0)?;
    let handle = net_plugin::Handle::of(handle.bytes()).expect("as many bytes");
    let mut connecting = plugin.connect(1, &handle)?;
    let (mut sending, mut receiving) = (None, None);
    while sending.is_none() || receiving.is_none() {
        if sending.is_none() {
            sending = connecting.poll(shape.clone())?;
        }
        if receiving.is_none() {
            receiving = listening.accept(shape.clone())?;
        }
    }
    Ok((sending.expect("connected"), receiving.expect("connected")))
}

fn message(number: usize) -> Vec<u8> {
    let length = [1, 16, 9_999, 10_000, 0, 777][number % 6];
    (0..length).map(|at| (at * 31 + number * 7) as u8).collect()
}

/// Sends messages, as many at once as fit. Returns how often the plug-in asked to be called again.
fn exchange(
    sending: &mut SendComm,
    receiving: &mut ReceiveComm,
    all: usize,
) -> Result<usize, Failed> {
    let (mut sent, mut got, mut refused) = (0, 0, 0);
    while got < all {
        while receiving.has_room() && got + receiving.posted() < all {
            if !receiving.post()? {
                refused += 1;
                break;
            }
        }
        if sent < all
            && let Some(room) = sending.room()
        {
            let message = message(sent);
            room[..message.len()].copy_from_slice(&message);
            if sending.send(message.len())? {
                sent += 1;
            } else {
                refused += 1;
            }
        }
        sending.is_sent()?;
        let came = match receiving.arrived()? {
            Some(came) => {
                check(came == message(got), || {
                    format!("message {got} came altered")
                })?;
                true
            }
            None => false,
        };
        if came {
            while !receiving.flush()? {}
            receiving.give_back();
            got += 1;
        }
    }
    while sending.in_flight() > 0 {
        sending.is_sent()?;
    }
    check(receiving.posted() == 0, || "receives are left".to_owned())?;
    Ok(refused)
}

fn messages(version: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let plugin = load(&compile(&folder, version, "")?)?;
    check(plugin.version() == version, || format!("{plugin:?}"))?;
    check(plugin.name() == "Loopback", || format!("{plugin:?}"))?;
    check(plugin.path().ends_with("libnccl-net-loopback.so"), || {
        format!("{plugin:?}")
    })?;
    let (mut sending, mut receiving) = connect(&plugin, SHAPE)?;
    let (mut other, mut receiver) = connect(&plugin, SHAPE)?;
    let refused = exchange(&mut sending, &mut receiving, 100)?;
    exchange(&mut other, &mut receiver, 10)?;
    check(refused > 0, || "nothing was ever refused".to_owned())?;
    Ok(())
}

/// GPU memory that only its DMA-BUF reaches, with these bytes from an offset on.
fn device_memory(bytes: usize, offset: u64) -> Result<(File, CallerMemory), Failed> {
    let file = tempfile::tempfile()?;
    file.write_all_at(&vec![0xff; bytes], offset)?;
    let given = CallerMemory {
        // Not a valid address.
        address: 0x10_0000,
        bytes,
        owner: Owner::Device(Some((Arc::new(file.try_clone()?.into()), offset))),
        kept: Arc::new(()),
    };
    Ok((file, given))
}

fn of_devices(version: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let plugin = load(&compile(&folder, version, "MEMORY=5;FLUSH=1")?)?;
    check(plugin.devices()[0].takes_device_memory(), || {
        format!("{:?}", plugin.devices())
    })?;
    const BYTES: usize = 1000;
    let (from, memory) = device_memory(4 * BYTES, 12_800)?;
    let shape = Shape {
        messages: 4,
        bytes: BYTES,
        tag: 5,
        memory: Some(memory),
    };
    let (to, memory) = device_memory(4 * BYTES, 256)?;
    let (mut listening, handle) = plugin.listen(0)?;
    let mut connecting = plugin.connect(1, &handle)?;
    let (mut sending, mut receiving) = (None, None);
    while sending.is_none() || receiving.is_none() {
        sending = sending.or(connecting.poll(shape.clone())?);
        let memory = Some(memory.clone());
        receiving = receiving.or(listening.accept(Shape {
            memory,
            ..shape.clone()
        })?);
    }
    let (mut sending, mut receiving) = (sending.expect("is"), receiving.expect("is"));
    check(sending.room().is_none(), || "room of its own".to_owned())?;
    for number in 0..20 {
        let (message, place) = (message(number), number * 7 % 4 * BYTES);
        let message = &message[..message.len().min(BYTES)];
        from.write_all_at(message, 12_800 + place as u64)?;
        while !receiving.post_at(place)? {}
        while !sending.send_at(place, message.len())? {}
        let came = loop {
            sending.is_sent()?;
            if let Some(came) = receiving.arrived_bytes()? {
                break came;
            }
        };
        let mut got = vec![0; came];
        to.read_exact_at(&mut got, 256 + place as u64)?;
        check(came == 0 || got != message, || {
            "what was not flushed was there".to_owned()
        })?;
        while !receiving.flush()? {}
        to.read_exact_at(&mut got, 256 + place as u64)?;
        check(got == message, || format!("message {number} came altered"))?;
        check(receiving.arrived()?.is_none(), || {
            "bytes of a GPU".to_owned()
        })?;
        receiving.give_back();
        to.write_all_at(&[0xff; BYTES], 256 + place as u64)?;
    }
    while sending.in_flight() > 0 {
        sending.is_sent()?;
    }
    drop((sending, receiving));
    // Without support for DMA-BUF, the device does not accept the memory.
    let folder = tempfile::tempdir()?;
    let plugin = load(&compile(&folder, version, "")?)?;
    let refused = connect(&plugin, shape).err().map(|it| it.to_string());
    let refused = refused.unwrap_or_default();
    check(refused.contains("regMr"), || refused.clone())
}

fn devices_are_described() -> Result<(), Failed> {
    for version in [8, 11, 12] {
        let folder = tempfile::tempdir()?;
        let plugin = load(&compile(&folder, version, "")?)?;
        let devices = plugin.devices();
        check(devices.len() == 2, || format!("{devices:?}"))?;
        let (first, second) = (&devices[0], &devices[1]);
        check(
            first.name == "loop0"
                && first.pci_path.as_deref() == Some("/sys/devices/pci0000:00/0000:00:05.0")
                && first.guid == 0x1234_5000_0000_0000
                && first.speed_mbps == 100_000
                && first.port == 1
                && first.latency_us == 1.5
                && first.most_communicators == 1024
                && first.most_receives == 1
                && first.most_bytes == 1 << 30
                && first.memory() == "host"
                && first.force_flush == (version > 8),
            || format!("{first:?}"),
        )?;
        let rail = (version == 12).then_some(1);
        check(
            second.name == "loop1"
                && second.pci_path.is_none()
                && second.port == 2
                && second.rail == rail
                && second.plane.is_none(),
            || format!("{second:?}"),
        )?;
    }
    Ok(())
}

/// The error about a plug-in with these settings.
fn refusal(version: u32, settings: &str) -> Result<String, Failed> {
    let folder = tempfile::tempdir()?;
    match load(&compile(&folder, version, settings)?) {
        Ok(plugin) => Err(format!("{settings}: {plugin:?} is loaded").into()),
        Err(error) => Ok(error.to_string()),
    }
}

fn absurd_devices_are_refused() -> Result<(), Failed> {
    for (settings, words) in [
        ("DEVICES=0", "devices gives no devices"),
        ("DEVICES=-3", "devices gives -3 devices"),
        ("DEVICES=5000", "5000 devices; expected 1024"),
        ("NAME=null", "getProperties gives no name for device 0"),
        ("NAME=latin1", "which is no UTF-8"),
        ("SPEED=-1", "a speed of -1 Mbit/s"),
        ("LIMIT=0", "room for 0 connections"),
        ("RECEIVES=0", "groups of 0 receives"),
    ] {
        let said = refusal(9, settings)?;
        let well =
            said.contains(words) && said.contains("libnccl-net-loopback.so") && said.contains("v9");
        check(well, || format!("{settings}: {said}"))?;
    }
    Ok(())
}

fn failures_name_the_function() -> Result<(), Failed> {
    for (version, settings, words) in [
        (
            8,
            "INIT=2",
            "init failed with ncclSystemError (2), saying: loopback: INIT fails as asked",
        ),
        (12, "INIT=1", "init failed with ncclUnhandledCudaError (1)"),
        (
            10,
            "DEVICES_CALL=3",
            "devices failed with ncclInternalError (3)",
        ),
        (
            11,
            "GETPROPERTIES=77",
            "getProperties failed with a result that NCCL does not know (77)",
        ),
    ] {
        let said = refusal(version, settings)?;
        check(said.contains(words), || format!("{settings}: {said}"))?;
        check(said.contains(&format!("ABI v{version}")), || said.clone())?;
    }
    for (settings, function) in [
        ("LISTEN=2", "listen"),
        ("CONNECT=6", "connect"),
        ("ACCEPT=6", "accept"),
        ("REGMR=2", "regMr"),
    ] {
        let folder = tempfile::tempdir()?;
        let plugin = load(&compile(&folder, 12, settings)?)?;
        let failed = connect(&plugin, SHAPE).err().map(|it| it.to_string());
        let failed = failed.unwrap_or_default();
        check(failed.contains(&format!("{function} failed with")), || {
            format!("{settings}: {failed}")
        })?;
    }
    Ok(())
}

fn a_failure_in_the_middle() -> Result<(), Failed> {
    for (version, settings, function) in [
        (8, "TEST=6:40", "test"),
        (9, "ISEND=6:20", "isend"),
        (12, "IRECV=3:20", "irecv"),
    ] {
        let folder = tempfile::tempdir()?;
        let plugin = load(&compile(&folder, version, settings)?)?;
        let (mut sending, mut receiving) = connect(&plugin, SHAPE)?;
        let failed = exchange(&mut sending, &mut receiving, 1000).err();
        let failed = failed
            .and_then(|it| it.message().map(str::to_owned))
            .unwrap_or_default();
        check(failed.contains(&format!("{function} failed with")), || {
            format!("{settings}: {failed}")
        })?;
    }
    Ok(())
}

fn older_libraries() -> Result<(), Failed> {
    for (version, words) in [
        (
            7,
            "exports none of ncclNetPlugin_v8 to ncclNetPlugin_v12, but ncclNetPlugin_v7; expected a net plug-in of ABI v8 and newer",
        ),
        (
            0,
            "exports none of ncclNetPlugin_v8 to ncclNetPlugin_v12; expected",
        ),
    ] {
        let said = refusal(version, "")?;
        check(said.contains(words), || said.clone())?;
    }
    let nowhere = load(Path::new("/nowhere/libnccl-net.so"));
    let said = nowhere.err().map(|it| it.to_string()).unwrap_or_default();
    check(
        said.contains("/nowhere/libnccl-net.so") && said.contains("No such file"),
        || said.clone(),
    )?;
    let folder = tempfile::tempdir()?;
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library")?;
    let said = load(&text)
        .err()
        .map(|it| it.to_string())
        .unwrap_or_default();
    check(said.contains("cannot be opened"), || said.clone())
}

fn a_missing_function() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("libbroken.so");
    loopback::compile(11, "", &["-DWITHOUT_ISEND"], &file).map_err(|it| it.to_string())?;
    let said = load(&file)
        .err()
        .map(|it| it.to_string())
        .unwrap_or_default();
    check(
        said.contains("(net plug-in ABI v11) has no function isend"),
        || said.clone(),
    )
}

fn limits_are_kept() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let plugin = load(&compile(&folder, 12, "LIMIT=1;BYTES=9000")?)?;
    let failed = connect(&plugin, SHAPE).err().map(|it| it.to_string());
    let said = failed.unwrap_or_default();
    check(
        said.contains("messages of 9000 bytes at most; expected 10000"),
        || said.clone(),
    )?;
    let small = Shape {
        bytes: 9000,
        ..SHAPE
    };
    let kept = connect(&plugin, small.clone())?;
    let more = plugin.listen(0).err().map(|it| it.to_string());
    let said = more.unwrap_or_default();
    check(
        said.contains("room for 1 connections on device 0 (loop0)"),
        || said.clone(),
    )?;
    drop(kept);
    drop(connect(&plugin, small)?);
    check(net_plugin::Handle::of(&[0; 127]).is_none(), || {
        "a handle that is too short".to_owned()
    })?;
    let outside = plugin.listen(2).err().map(|it| it.to_string());
    check(
        outside.is_some_and(|it| it.contains("no device 2; expected one below 2")),
        || "a device that is not there".to_owned(),
    )?;
    let folder = tempfile::tempdir()?;
    let plugin = load(&compile(&folder, 8, "MEMORY=2")?)?;
    let said = plugin.listen(0).err().map(|it| it.to_string());
    let said = said.unwrap_or_default();
    check(
        said.contains("memory of the kinds CUDA; expected host"),
        || said.clone(),
    )
}

fn a_list_is_tried() -> Result<(), Failed> {
    let (bad, good) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let bad = compile(&bad, 12, "INIT=2")?;
    let good = compile(&good, 9, "")?;
    let list = |files: [&Path; 2]| {
        let names: Vec<String> = files.iter().map(|it| it.display().to_string()).collect();
        Plugin::load(&PluginChoice::parse(&names.join(","))?, 1)
    };
    let plugin = list([&bad, &good])?;
    check(plugin.is_some_and(|it| it.version() == 9), || {
        "the second was not taken".to_owned()
    })?;
    let said = list([&bad, &bad]).err().map(|it| it.to_string());
    check(
        said.is_some_and(|it| it.starts_with("no net plug-in works: ") && it.contains("; ")),
        || "both are named".to_owned(),
    )?;
    let none = Plugin::load(&PluginChoice::Nothing, 1)?;
    check(none.is_none(), || "nothing was wanted".to_owned())
}

//! scratch
use std::time::Duration;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.len() == 1 {
        unsafe { nccl_binary::host::serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock()).unwrap() };
        return;
    }
    let t = std::time::Instant::now();
    let job = nccl_binary::job::Job {
        program: std::env::current_exe().unwrap(), arguments: vec![], library: a[1].clone().into(),
        topology: std::fs::read_to_string(&a[2]).unwrap(), hosts: a[3].parse().unwrap(),
        network: nccl_binary::message::Network::Plugin, nvlink_domain: a.len() > 5,
        sizes: vec![1024, 8192, 65536, 524288, 4 << 20, 32 << 20, 256 << 20],
        variables: vec![], graphs: true, deadline: Duration::from_secs(60),
    };
    match job.run() {
        Ok(answers) => for (i, x) in answers.iter().enumerate() {
            std::fs::write(format!("{}.h{i}.log", a[4]), x.log.join("\n")).unwrap();
            eprintln!("host {i}: {} {:?} {:?} {:?} calls {} domains {:?}", x.report.version, x.report.refusal, &x.report.failures[..x.report.failures.len().min(3)], x.report.missing, x.report.tuner_calls.len(), x.report.nvlink_domains);
            if i == 0 { std::fs::write(format!("{}.topo.xml", a[4]), x.report.topology.clone().unwrap_or_default()).unwrap(); std::fs::write(format!("{}.graph.xml", a[4]), x.report.graphs.clone().unwrap_or_default()).unwrap(); }
        },
        Err(e) => eprintln!("ERROR {e}"),
    }
    eprintln!("{:?}", t.elapsed());
}

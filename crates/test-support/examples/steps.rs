fn main() {
    let name = std::env::args().nth(1).unwrap();
    let case = test_support::golden::Case::read(std::path::Path::new(&format!("../shared/golden/cases/{name}.json")), std::path::Path::new("../shared/golden/topologies")).unwrap();
    let doc = topology::xml::parse("x", &case.topology_bytes().unwrap()).unwrap();
    let sys = topology::System::from_document(&doc).unwrap();
    let p = planner::plan_host(sys, &case.request()).unwrap();
    for t in &p.trails {
        println!("{:?} attempts {} end {:?}", t.kind, t.attempts.len(), t.end);
        for a in &t.attempts {
            println!("  pass {} {:?} x{} same {} {} {} {}/{} min {} left {} improved {} best {}x{} {:?}", a.pass, a.pattern, a.cross_nic, a.same_channels, a.type_intra, a.type_inter, a.bw_intra, a.bw_inter, a.min_channels, a.budget_left, a.improved, a.best.channels, a.best.bw_intra, a.next);
        }
    }
}

//! Transfers that share links fairly.

/// The bandwidths of transfers that share links fairly (max-min): all grow together, and those over
/// a full link grow no more. `capacities` are those of the links that `transfers` name, GB/s. A
/// transfer over no link has 0.
pub fn shared(transfers: &[Vec<u32>], capacities: &[f64]) -> Vec<f64> {
    let mut left: Vec<f64> = capacities.to_vec();
    let mut users = vec![0u32; capacities.len()];
    let known = |link: u32| (link as usize) < capacities.len();
    for link in transfers.iter().flatten().filter(|link| known(**link)) {
        users[*link as usize] += 1;
    }
    let mut gbps = vec![0.0; transfers.len()];
    let mut grows: Vec<bool> = transfers.iter().map(|links| !links.is_empty()).collect();
    let mut level = 0.0;
    // Every round fills a link.
    for _ in 0..=capacities.len() {
        let used = users.iter().zip(&left).filter(|(users, _)| **users > 0);
        let step = used
            .map(|(users, left)| left / f64::from(*users))
            .min_by(f64::total_cmp);
        let Some(step) = step else {
            break;
        };
        let step = step.max(0.0);
        level += step;
        let full: Vec<bool> = users
            .iter()
            .zip(&mut left)
            .map(|(users, left)| {
                let share = *left / f64::from((*users).max(1));
                *left -= step * f64::from(*users);
                *users > 0 && share <= step * (1.0 + 1e-12) + 1e-12
            })
            .collect();
        for (transfer, links) in transfers.iter().enumerate() {
            let stops = links.iter().any(|it| known(*it) && full[*it as usize]);
            if grows[transfer] && stops {
                grows[transfer] = false;
                gbps[transfer] = level;
                for link in links.iter().filter(|link| known(**link)) {
                    users[*link as usize] -= 1;
                }
            }
        }
    }
    gbps
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn what_one_cannot_use_goes_to_the_others() {
        // Link 0 is shared by all, link 1 slows the first.
        let transfers = [vec![0, 1], vec![0], vec![0]];
        assert_eq!(shared(&transfers, &[60.0, 10.0]), [10.0, 25.0, 25.0]);
        assert_eq!(shared(&transfers, &[9.0, 10.0]), [3.0, 3.0, 3.0]);
        assert_eq!(shared(&[Vec::new(), vec![0]], &[7.0]), [0.0, 7.0]);
    }
}

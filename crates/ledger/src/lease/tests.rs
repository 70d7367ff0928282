use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::rates::Rated;

/// An agent with one session: messages to it, and from it, arrive late or are lost with their connection.
#[derive(Clone, Default)]
struct Agent {
    /// When a lease arrives.
    coming: Vec<(u64, Grant)>,
    /// When an acknowledgement arrives.
    going: Vec<(u64, u64)>,
    in_force: Option<(Grant, u64)>,
    connected: bool,
}

impl Agent {
    fn rate(&self, now: u64) -> u64 {
        self.in_force.map_or(
            0,
            |(lease, from)| {
                if now < from + lease.length_ms { lease.rate_bps } else { lease.fall_back_bps }
            },
        )
    }
}

const RESOURCES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Happens {
    /// New rates: shares of each resource for each session, in parts of 16, and the resources' capacities.
    Aim(Vec<u64>, Vec<u64>),
    /// A session draws on these from the next planning on.
    Move(usize, u8),
    /// The connection of an agent ends, or is there again.
    Lose(usize),
    Return(usize),
    /// So many ms go by.
    Wait(u64),
}

fn happens(sessions: usize) -> impl Strategy<Value = Happens> {
    let shares = proptest::collection::vec(0_u64..16, sessions);
    let capacities = proptest::collection::vec(0_u64..2_000_000_000, RESOURCES.len());
    prop_oneof![
        3 => (shares, capacities).prop_map(|(shares, capacities)| Happens::Aim(shares, capacities)),
        1 => (0..sessions, 1_u8..8).prop_map(|(of, uses)| Happens::Move(of, uses)),
        1 => (0..sessions).prop_map(Happens::Lose),
        2 => (0..sessions).prop_map(Happens::Return),
        6 => (1_u64..5_000).prop_map(Happens::Wait),
        1 => (20_000_u64..50_000).prop_map(Happens::Wait),
    ]
}

struct World {
    now: u64,
    leases: Leases,
    generation: u64,
    agents: Vec<Agent>,
    uses: Vec<u8>,
    /// Of the last planning.
    capacities: BTreeMap<Arc<str>, u64>,
    /// What may have been sent over each resource at the last look.
    used: Vec<u64>,
    delays: u64,
}

impl World {
    fn new(sessions: usize) -> World {
        let mut leases = Leases::default();
        (0..sessions as u64).for_each(|session| leases.begin(session));
        let agents = vec![Agent { connected: true, ..Agent::default() }; sessions];
        let uses = (0..sessions).map(|n| 1 + (n % 7) as u8).collect();
        let used = vec![0; RESOURCES.len()];
        World { now: 0, leases, generation: 0, agents, uses, capacities: BTreeMap::new(), used, delays: 1 }
    }

    fn names(&self, of: usize) -> Vec<Arc<str>> {
        let on = |bit: &usize| self.uses[of] & (1 << bit) != 0;
        (0..RESOURCES.len()).filter(on).map(|bit| RESOURCES[bit].into()).collect()
    }

    fn aim(&mut self, shares: &[u64], capacities: &[u64]) {
        let mut rates = Rates::default();
        for (name, capacity) in RESOURCES.iter().zip(capacities) {
            rates.capacities.insert((*name).into(), *capacity);
        }
        for (session, share) in shares.iter().enumerate() {
            let uses = self.names(session);
            let all: u64 = shares.iter().sum::<u64>().max(1);
            let least = uses.iter().map(|name| rates.capacities[name]).min().unwrap_or(0);
            let rated =
                Rated { rate_bps: least / all * share, alone_bps: least / all * share, uses, links: Vec::new() };
            rates.sessions.insert(session as u64, rated);
        }
        self.leases.aim(&rates);
        self.capacities = rates.capacities;
    }

    fn delay(&mut self) -> u64 {
        self.delays = self.delays.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.delays >> 33) % 300
    }

    /// A turn of the loop, 100 ms long.
    fn turn(&mut self) {
        let agents = &self.agents;
        let generation = &mut self.generation;
        let grants = self.leases.step(
            self.now,
            |of| agents[of as usize].connected,
            || {
                *generation += 1;
                *generation
            },
        );
        for grant in grants {
            let at = self.now + self.delay();
            self.agents[grant.session as usize].coming.push((at, grant));
        }
        self.now += 100;
        for of in 0..self.agents.len() {
            let delay = self.delay();
            let (now, agent) = (self.now, &mut self.agents[of]);
            // In the order in which they were sent, as on one connection.
            while let Some((at, grant)) = agent.coming.first().copied().filter(|(at, _)| *at <= now) {
                agent.coming.remove(0);
                if agent.in_force.is_none_or(|(is, _)| is.generation < grant.generation) {
                    agent.in_force = Some((grant, at));
                }
                agent.going.push((now + delay, grant.generation));
            }
            while let Some((_, generation)) = agent.going.first().copied().filter(|(at, _)| *at <= now) {
                agent.going.remove(0);
                self.leases.acknowledged(of as u64, generation, now);
            }
        }
    }

    fn lose(&mut self, of: usize) {
        let agent = &mut self.agents[of];
        agent.connected = false;
        // What was on its way may still have come.
        if let Some((at, grant)) = agent.coming.first().copied()
            && of.is_multiple_of(2)
        {
            agent.in_force = Some((grant, at.min(self.now)));
        }
        agent.coming.clear();
        agent.going.clear();
    }

    fn come_back(&mut self, of: usize) {
        let agent = &mut self.agents[of];
        if !agent.connected {
            agent.connected = true;
            let (generation, rate) =
                agent.in_force.map_or((0, 0), |(lease, _)| (lease.generation, agent.rate(self.now)));
            self.leases.found(of as u64, generation, rate, self.now);
        }
    }

    /// No more is sent than was thought possible; and that is no more than may be, but where it was more before, and then it only gets
    /// less.
    fn check(&mut self) -> Result<(), TestCaseError> {
        for (bit, name) in RESOURCES.iter().enumerate() {
            let over = |of: &usize| self.uses[*of] & (1 << bit) != 0;
            let sent: u64 = (0..self.agents.len()).filter(over).map(|of| self.agents[of].rate(self.now)).sum();
            let used = self.leases.used_bps(name, self.now);
            prop_assert!(sent <= used, "{name} carries {sent}, thought were {used}");
            let may = self.capacities.get(*name).copied().unwrap_or(0);
            prop_assert!(used <= may.max(self.used[bit]), "{name}: {used} of {may}, before {}", self.used[bit]);
            self.used[bit] = used;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_resource_is_given_out_twice(story in proptest::collection::vec(happens(6), 1..40)) {
        let mut world = World::new(6);
        for happens in story {
            match happens {
                Happens::Aim(shares, capacities) => world.aim(&shares, &capacities),
                // Kernels route; what a session draws on changes with the network, and what it draws on more is no one's doing.
                Happens::Move(of, uses) => {
                    if world.agents[of].rate(world.now) == 0 && world.leases.held_bps(of as u64, world.now) == 0 {
                        world.uses[of] = uses;
                        world.leases.aim(&Rates { capacities: world.capacities.clone(), ..Rates::default() });
                    }
                }
                Happens::Lose(of) => world.lose(of),
                Happens::Return(of) => world.come_back(of),
                Happens::Wait(ms) => for _ in 0..ms.div_ceil(100) {
                    world.turn();
                    world.check()?;
                },
            }
            world.check()?;
        }
        // With all agents there everybody comes to what it is to have.
        (0..6).for_each(|of| world.come_back(of));
        world.aim(&[1, 2, 3, 4, 5, 6], &[1_000_000_000; 3]);
        for _ in 0..300 {
            world.turn();
            world.check()?;
        }
        for of in 0..6 {
            let (is, target) = (world.agents[of].rate(world.now), world.leases.target_bps(of as u64));
            prop_assert!(!differs(is, target), "session {of} has {is} of {target}");
        }
    }
}

fn rates(of: &[(u64, u64)], capacity: u64) -> Rates {
    let rated = |rate_bps| Rated { rate_bps, alone_bps: rate_bps, uses: vec!["a".into()], links: Vec::new() };
    Rates {
        sessions: of.iter().map(|(session, rate)| (*session, rated(*rate))).collect(),
        capacities: [("a".into(), capacity)].into(),
    }
}

const G: u64 = 1_000_000_000;

#[test]
fn an_increase_waits_for_the_decrease_it_lives_on_and_no_other() {
    let mut leases = Leases::default();
    (1..=3).for_each(|session| leases.begin(session));
    let mut next = 0;
    let mut step = |leases: &mut Leases, now| {
        leases.step(
            now,
            |_| true,
            || {
                next += 1;
                next
            },
        )
    };
    let other = Rated { rate_bps: G, alone_bps: G, uses: vec!["b".into()], links: Vec::new() };
    let mut first = rates(&[(1, 10 * G)], 10 * G);
    first.sessions.insert(3, other.clone());
    first.capacities.insert("b".into(), 5 * G);
    leases.aim(&first);
    for grant in step(&mut leases, 0) {
        leases.acknowledged(grant.session, grant.generation, 10);
    }
    assert_eq!(leases.in_force_bps(1, 20), Some(10 * G));
    let mut second = rates(&[(1, 4 * G), (2, 6 * G)], 10 * G);
    second.sessions.insert(3, Rated { rate_bps: 5 * G, alone_bps: 5 * G, ..other });
    second.capacities.insert("b".into(), 5 * G);
    leases.aim(&second);
    let sent = step(&mut leases, 100);
    let told: Vec<(u64, u64)> = sent.iter().map(|grant| (grant.session, grant.rate_bps)).collect();
    assert_eq!(told, [(1, 4 * G), (3, 5 * G)], "session 2 lives on what session 1 gives");
    assert_eq!(step(&mut leases, 150), []);
    leases.acknowledged(1, sent[0].generation, 200);
    let sent = step(&mut leases, 200);
    assert_eq!((sent.len(), sent[0].session, sent[0].rate_bps), (1, 2, 6 * G));
}

#[test]
fn a_lease_is_renewed_before_its_end() {
    let mut leases = Leases::default();
    leases.begin(1);
    leases.aim(&rates(&[(1, G)], G));
    let mut next = 0;
    let mut sent = Vec::new();
    for now in (0..60_000).step_by(100) {
        for grant in leases.step(
            now,
            |_| true,
            || {
                next += 1;
                next
            },
        ) {
            leases.acknowledged(1, grant.generation, now + 10);
            sent.push(now);
        }
    }
    assert_eq!(sent, [0, 10_000, 20_000, 30_000, 40_000, 50_000]);
}

#[test]
fn who_is_away_keeps_its_fall_back_until_it_is_over() {
    let mut leases = Leases::default();
    leases.begin(1);
    leases.begin(2);
    let mut next = 0;
    let mut step = |leases: &mut Leases, now, here: u64| {
        leases.step(
            now,
            |of| of == here,
            || {
                next += 1;
                next
            },
        )
    };
    leases.aim(&rates(&[(1, 6 * G), (2, 0)], 10 * G));
    let sent = step(&mut leases, 0, 1);
    leases.acknowledged(1, sent[0].generation, 10);
    // From then on nobody reaches it, and all is to be another's.
    leases.aim(&rates(&[(1, 0), (2, 10 * G)], 10 * G));
    let mut now = 100;
    for _ in 0..100 {
        for grant in step(&mut leases, now, 2) {
            assert_eq!((grant.session, grant.rate_bps), (2, 4 * G), "at {now} ms");
            leases.acknowledged(2, grant.generation, now);
        }
        assert_eq!(leases.used_bps("a", now), 10 * G);
        now += LENGTH_MS;
    }
    leases.end(1);
    let sent = step(&mut leases, now, 2);
    assert_eq!((sent[0].session, sent[0].rate_bps), (2, 10 * G));
}

#[test]
fn what_nobody_acknowledges_is_not_sent_for_ever() {
    let mut leases = Leases::default();
    leases.begin(1);
    let mut next = 0;
    let mut count = 0;
    for now in (0..1_000_000).step_by(1000) {
        leases.aim(&rates(&[(1, G + now * 1_000_000)], 100_000 * G));
        count += leases
            .step(
                now,
                |_| true,
                || {
                    next += 1;
                    next
                },
            )
            .len();
    }
    assert_eq!(count, UNDERWAY_MAX);
}

#[test]
fn what_is_booked_ahead_holds_with_nobody_in_charge() {
    let mut leases = Leases::default();
    (1..=2).for_each(|session| leases.begin(session));
    let now_rates = rates(&[(1, 6 * G), (2, 2 * G)], 10 * G);
    leases.aim(&now_rates.alone(&rates(&[(1, 3 * G), (2, 5 * G)], 10 * G)));
    let mut next = 0;
    let mut step = |leases: &mut Leases, now| {
        leases.step(
            now,
            |_| true,
            || {
                next += 1;
                next
            },
        )
    };
    let told = |grants: &[Grant]| -> Vec<(u64, u64, u64, Option<u64>)> {
        grants.iter().map(|of| (of.session, of.rate_bps, of.fall_back_bps, of.falls_after_ms)).collect()
    };
    // It begins after these leases have run out.
    leases.foresee(Some(LENGTH_MS + 5_000));
    let first = step(&mut leases, 0);
    assert_eq!(told(&first), [(1, 6 * G, 3 * G, None), (2, 2 * G, 2 * G, None)], "nobody gets more than now");
    first.iter().for_each(|grant| leases.acknowledged(grant.session, grant.generation, 0));
    assert_eq!((leases.held_bps(1, LENGTH_MS - 1), leases.held_bps(1, LENGTH_MS)), (6 * G, 3 * G));
    // The next ones last longer than that.
    let second = step(&mut leases, RENEW_MS);
    assert_eq!(told(&second), [(1, 6 * G, 3 * G, Some(25_000)), (2, 2 * G, 2 * G, None)]);
    leases.foresee(None);
    second.iter().for_each(|grant| leases.acknowledged(grant.session, grant.generation, RENEW_MS));
    assert_eq!(step(&mut leases, 2 * RENEW_MS)[0].falls_after_ms, None);
}

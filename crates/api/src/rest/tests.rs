use super::*;
use crate::Name;

fn place(text: &str) -> Location {
    text.parse().expect("a place")
}

fn request() -> TransferRequest {
    TransferRequest {
        sources: vec![place("caltech:/data/run7/")],
        destination: Some(place("cern:/archive/")),
        class: "cms".to_owned(),
        ..TransferRequest::default()
    }
}

#[test]
fn places_come_back_and_others_are_refused() {
    for text in ["cern:/", "a.b_c-9:/x y/ü/", "cern:/100%25/%FF%0A", "cern:/a:b"] {
        assert_eq!(place(text).to_string(), text);
    }
    let refused = [
        ("", "written `endpoint:/absolute/path`"),
        ("/data", "written `endpoint:/absolute/path`"),
        ("cern:data", "written `endpoint:/absolute/path`"),
        (":/data", "is no name"),
        ("a b:/data", "is no name"),
        ("cern:/%4", "two hexadecimal digits"),
        ("cern:/a%00b", "zero byte"),
        ("cern:/a/../b", "`..`"),
    ];
    for (text, why) in refused {
        let told = text.parse::<Location>().unwrap_err().to_string();
        assert!(told.contains(why), "{text}: {told}");
    }
    let long = format!("cern:/{}", "x".repeat(PATH_MAX));
    let told = long.parse::<Location>().unwrap_err().to_string();
    assert!(told.contains("4096 are the most") && told.len() < 300, "{told}");
}

#[test]
fn numbers_and_moments_come_back() {
    assert_eq!("t17".parse(), Ok(TransferId(17)));
    assert_eq!(TransferId(17).to_string(), "t17");
    for bad in ["17", "t", "t+1", "t-1", "T1", "t99999999999999999999"] {
        assert!(bad.parse::<TransferId>().is_err(), "{bad}");
    }
    let time = Time::from_unix_ms(1_772_344_800_500);
    assert_eq!(time.to_string(), "2026-03-01T06:00:00.5Z");
    assert_eq!((time.to_string().parse(), time.unix_ms()), (Ok(time), 1_772_344_800_500));
    assert_eq!(Time::from_unix_ms(u64::MAX), Time(units::Window::LATEST));
}

#[test]
fn a_request_that_cannot_be_meant_names_its_field_and_the_way_out() {
    assert_eq!(request().check(), Ok(()));
    let names = |names: &[&str]| names.iter().map(|name| Name(name.as_bytes().to_vec())).collect::<Vec<_>>();
    type Change = Box<dyn Fn(&mut TransferRequest)>;
    let cases: Vec<(&str, Change)> = vec![
        ("name", Box::new(|r| r.name = Some("x".repeat(TEXT_MAX + 1)))),
        ("name", Box::new(|r| r.name = Some("two\nlines".to_owned()))),
        ("collaboration", Box::new(|r| r.collaboration = Some("*".to_owned()))),
        ("class", Box::new(|r| r.class.clear())),
        ("sources", Box::new(|r| r.sources.clear())),
        ("sources", Box::new(|r| r.sources = vec![place("a:/"); SOURCES_MAX + 1])),
        ("destination", Box::new(|r| r.destination = None)),
        ("destination", Box::new(|r| r.destinations = vec![place("a:/")])),
        ("destination", Box::new(|r| r.destination = Some(place("caltech:/data/run7/")))),
        (
            "destinations",
            Box::new(|r| {
                r.destination = None;
                r.destinations = vec![place("a:/"), place("a:/")];
            }),
        ),
        (
            "destinations",
            Box::new(|r| {
                r.destination = None;
                r.destinations = (0..=DESTINATIONS_MAX).map(|n| place(&format!("a:/{n}"))).collect();
            }),
        ),
        ("files[1]", Box::new(move |r| r.files = names(&["a", "/b"]))),
        ("files[0]", Box::new(move |r| r.files = names(&["a/../b"]))),
        ("files[0]", Box::new(move |r| r.files = names(&["a//b"]))),
        ("files[0]", Box::new(move |r| r.files = names(&[""]))),
        ("files", Box::new(move |r| r.files = names(&["a", "b", "a"]))),
        ("files", Box::new(|r| r.files = (0..=FILES_MAX).map(|n| Name(n.to_string().into_bytes())).collect())),
        ("urgency", Box::new(|r| r.urgency = URGENCY_MAX + 1)),
        ("checksum", Box::new(|r| r.checksum = Some("crc".to_owned()))),
        ("congestion", Box::new(|r| r.congestion = Some("b b".to_owned()))),
        ("congestion", Box::new(|r| r.congestion = Some("x".repeat(16)))),
        ("streams", Box::new(|r| r.streams = Some(0))),
        ("after", Box::new(|r| r.after = vec![TransferId(1); AFTER_MAX + 1])),
    ];
    for (n, (field, change)) in cases.into_iter().enumerate() {
        let mut bad = request();
        change(&mut bad);
        let wrong = bad.check().expect_err(field);
        assert_eq!(wrong.field, field, "case {n}: {wrong}");
        assert_eq!(Problem::from(wrong).status, 422);
    }
    let mut most = request();
    most.files = (0..FILES_MAX).map(|n| Name(n.to_string().into_bytes())).collect();
    assert_eq!(most.check(), Ok(()));
}

#[test]
fn a_submission_of_all_files_fits_its_limit() {
    // Names as experiments have them are some 100 bytes; 800 is far beyond.
    let name = |n: usize| Name(format!("{n:0>800}").into_bytes());
    let most = TransferRequest { files: (0..FILES_MAX).map(name).collect(), ..request() };
    assert!(serde_json::to_vec(&most).expect("it is text").len() < BODY_LARGE_MAX);
}

#[test]
fn what_is_not_known_is_refused() {
    let read = |text: &str| serde_json::from_str::<TransferRequest>(text).map_err(|e| e.to_string());
    let least = r#"{"sources":["a:/x"],"destination":"b:/","class":"cms"}"#;
    assert_eq!(read(least).and_then(|r| r.check().map_err(|e| e.to_string())), Ok(()));
    let told = read(r#"{"sources":["a:/x"],"destination":"b:/","class":"cms","classs":1}"#).unwrap_err();
    assert!(told.contains("unknown field `classs`"), "{told}");
    let told = read(r#"{"sources":["nowhere"],"destination":"b:/","class":"cms"}"#).unwrap_err();
    assert!(told.contains("a place is written"), "{told}");
}

#[test]
fn roles_are_in_order_and_go_with_their_collaboration() {
    let submitter = Role::Submitter { collaboration: "cms".to_owned() };
    let all = [Role::Viewer, submitter.clone(), Role::Operator, Role::Admin];
    assert!(all.windows(2).all(|two| two[0] < two[1] && two[0].word() < two[1].word()));
    for role in &all {
        let json = serde_json::to_string(role).expect("it is text");
        assert_eq!(serde_json::from_str::<Role>(&json).expect("it was one"), *role, "{json}");
    }
    let acts: Vec<bool> = all.iter().map(|role| role.may_act_for("cms")).collect();
    assert_eq!(acts, [false, true, true, true]);
    assert!(!submitter.may_act_for("atlas"));
    let ask = |role, collaboration: Option<&str>| {
        let collaboration = collaboration.map(str::to_owned);
        TokenRequest { name: "x".to_owned(), role, collaboration, good_seconds: None }.check()
    };
    assert_eq!(ask(RoleWord::Submitter, None).unwrap_err().field, "collaboration");
    assert_eq!(ask(RoleWord::Admin, Some("cms")).unwrap_err().field, "collaboration");
    assert_eq!(ask(RoleWord::Submitter, Some("cms")), Ok(()));
}

#[test]
fn other_requests_are_checked_too() {
    let endpoint = |hosts: &[&str], root: &str| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        EndpointRequest { hosts, root: Name(root.as_bytes().to_vec()) }.check().map_err(|e| e.field)
    };
    assert_eq!(endpoint(&["a", "b"], "/x"), Ok(()));
    assert_eq!(endpoint(&[], "/x"), Err("hosts".to_owned()));
    assert_eq!(endpoint(&["a", "a"], "/x"), Err("hosts".to_owned()));
    assert_eq!(endpoint(&["a"], "x"), Err("root".to_owned()));
    assert_eq!(endpoint(&["a"], "/x/.."), Err("root".to_owned()));

    let limit = |for_seconds, why: &str| LimitRequest { rate_bps: 0, for_seconds, why: why.to_owned() }.check();
    assert!(limit(1, "repair").is_ok() && limit(0, "x").is_err() && limit(LIMIT_SECONDS_MAX + 1, "x").is_err());
    assert!(limit(1, "").is_err());

    let sample = CounterSample {
        link: "ana:forward".to_owned(),
        rate_bps: Some(1),
        total_bytes: None,
        age_ms: 0,
        enforced_bps: None,
    };
    let counters = |samples| Counters { source: "snmp".to_owned(), samples }.check();
    assert!(counters(vec![sample.clone()]).is_ok() && counters(vec![]).is_err());
    assert!(counters(vec![sample.clone(); SAMPLES_MAX + 1]).is_err());
    assert!(counters(vec![CounterSample { total_bytes: Some(1), ..sample }]).is_err());

    let query = |limit| TransferQuery { limit, ..TransferQuery::default() }.check();
    assert!(query(None).is_ok() && query(Some(PAGE_MAX)).is_ok());
    assert!(query(Some(0)).is_err() && query(Some(PAGE_MAX + 1)).is_err());
    assert!(PatchRequest::default().check().is_err());
}

#[test]
fn problems_have_a_word_a_status_and_a_way_out() {
    let problem = Problem::not_found("transfer t17").fix("see `longhaul transfer ls`").again(3);
    let json = serde_json::to_value(&problem).expect("it is text");
    assert_eq!(json["type"], "not_found");
    assert_eq!((json["status"].as_u64(), json["again_seconds"].as_u64()), (Some(404), Some(3)));
    assert_eq!(problem.to_string(), "there is no transfer t17: see `longhaul transfer ls`");
    assert_eq!(serde_json::from_value::<Problem>(json).expect("it was one"), problem);
    for kind in Kind::ALL {
        assert!((400..600).contains(&kind.status()), "{kind}");
    }
}

#[test]
fn agents_that_share_a_host_have_two_names_in_one() {
    for good in ["dtn1", "cms@dtn1", "a.b_c-d@e"] {
        assert!(checked_agent("host", good).is_ok(), "{good}");
    }
    for bad in ["", "@dtn1", "cms@", "cms@dtn1@x", "c ms@dtn1", "cms@dtn 1", "cms/x@dtn1"] {
        assert!(checked_agent("host", bad).is_err(), "{bad}");
    }
}

//! Files as others write them. The shapes are those of containerlab 0.72, the Topology Zoo and TopoHub.

use std::time::Duration;

use model::network::{Format, Imported, Loss, Network, NodeKind, Probability, shipped};
use units::Rate;

fn read(format: Format, text: &str) -> Imported {
    Network::import(format, text, "dir/file.ending").unwrap_or_else(|error| panic!("{error}"))
}

fn refused(format: Format, text: &str) -> String {
    Network::import(format, text, "file").unwrap_err().to_string()
}

const CLAB: &str = r#"# A lab with what labs have.
name: My lab
mgmt:
  network: custom
topology:
  defaults:
    kind: linux
  nodes:
    srl1:
      kind: nokia_srlinux
      image: ghcr.io/nokia/srlinux
    client1:
    frr:
      image: frrouting/frr
      labels:
        longhaul.kind: router
        longhaul.site: geneva
        longhaul.latitude: 46.2
        longhaul.longitude: 6
        someone.else: 1
    client2: {}
  links:
    - endpoints: ["srl1:e1-1", "client1:eth1"]
    - endpoints: [srl1:e1-2, frr:eth1]
      mtu: 9000
      labels:
        longhaul.name: ocean
        longhaul.rate: 1 Gb/s
        longhaul.delay: 50 ms
        longhaul.loss: 0.0001
        longhaul.risks: duct-7, landing
        longhaul.cost: 7
        longhaul.back.rate: 500 Mb/s
        longhaul.back.loss: "{ mean = 1e-4, burst = 10 }"
        someone.else: 1
      vars:
        x: 1
    - type: veth
      endpoints:
        - node: client1
          interface: eth2
        - node: srl1
          interface: e1-3
    - endpoints: ["srl1:mgmt0", "host:srl1_mgmt0"]
    - type: macvlan
      endpoint:
        node: srl1
        interface: e1-9
      host-interface: enp0s3
"#;

#[test]
fn containerlab_is_read_in_both_of_its_forms() {
    let Imported { network, notes } = read(Format::Containerlab, CLAB);
    assert_eq!(network.name, "My-lab");
    let nodes: Vec<_> = network.nodes.iter().map(|node| (node.name.as_str(), node.kind)).collect();
    let (host, router) = (NodeKind::Host, NodeKind::Router);
    assert_eq!(nodes, [("srl1", router), ("client1", host), ("frr", router), ("client2", host)]);
    assert_eq!(network.sites[network.nodes[2].site.unwrap()].position, Some((46.2, 6.0)));

    let links: Vec<_> = network.links.iter().map(|link| (link.name.as_str(), link.from, link.to, link.mtu)).collect();
    assert_eq!(links, [("srl1-client1", 0, 1, 9500), ("ocean", 0, 2, 9000), ("client1-srl1", 1, 0, 9500)]);
    let ocean = &network.links[1];
    assert_eq!((ocean.forward.rate, ocean.backward.rate), (Some(Rate::gbps(1)), Some(Rate::mbps(500))));
    assert_eq!((ocean.forward.delay, ocean.backward.delay), (Duration::from_millis(50), Duration::from_millis(50)));
    assert_eq!(ocean.forward.loss, Loss::Random(Probability::new(1e-4).unwrap()));
    assert!(matches!(ocean.backward.loss, Loss::Bursts { .. }));
    assert_eq!((ocean.cost, &ocean.risks[..]), (7, &["duct-7".to_owned(), "landing".to_owned()][..]));

    assert_eq!(
        notes,
        [
            "network `My lab` is called `My-lab`: names are letters, digits, `_`, `.` and `-`, each once",
            "what the file says of mgmt is left out",
            "what nodes say of image is left out: there are no containers here",
            "what the link on line 24 says of vars is left out",
            "the link on line 44 is left out: it leads out of the lab, to `host`",
            "the link on line 45 is left out: it is of type `macvlan`, not between two nodes",
            "node `client1` is a host, as its kind is `linux`, and has 2 links: if it forwards, label it `longhaul.kind: router`",
            "labels that do not begin with `longhaul.` are left out: 2 of them",
        ]
    );
}

#[test]
fn refusals_of_containerlab_have_lines() {
    let cases = [
        (
            "longhaul.delay: 50 ms",
            "longhaul.delay: 50 m s",
            "file:29: link `ocean`: delay: `50 m s` is not a span of time: ",
        ),
        ("longhaul.rate: 1 Gb/s", "longhaul.rate: 8", "file:28: link `ocean`: rate: `8` has no unit"),
        ("longhaul.cost: 7", "longhaul.cots: 7", "file:32: link `ocean`: unknown key `cots`; did you mean `cost`?"),
        ("back.rate: 500 Mb/s", "back.rate: slow", "file:33: link `ocean`: back: rate: `slow` is not a rate"),
        ("kind: router", "kind: switch", "file:16: node `frr`: `switch` is no kind of node: write `host` or `router`"),
        (
            "        longhaul.longitude: 6\n",
            "",
            "file:13: node `frr`: label both: `longhaul.latitude` and `longhaul.longitude`",
        ),
        ("latitude: 46.2", "latitude: 9 N", "file:18: node `frr`: latitude: write degrees, not `9 N`"),
        ("longhaul.site", "longhaul.town", "file:17: node `frr`: unknown label `longhaul.town`; a node's are kind, "),
        ("frr:eth1", "ffr:eth1", "file:24: a link: unknown node `ffr`; did you mean `frr`?"),
        ("[srl1:e1-2, frr:eth1]", "[srl1:e1-2]", "file:24: a link: endpoints: not two: write for example"),
        ("name: My lab\n", "", "file:2: `name` is missing"),
        ("topology:", "topo:", "file:2: `topology` is missing: is this a topology file of containerlab?"),
        ("defaults:", "defaults: [", "file:8: "),
    ];
    for (right, wrong, expected) in cases {
        assert!(CLAB.contains(right), "{right}");
        let message = refused(Format::Containerlab, &CLAB.replace(right, wrong));
        assert!(message.starts_with(expected), "{wrong}: {message}");
    }
}

#[test]
fn structures_too_deep_are_refused() {
    let deep = [
        (Format::Containerlab, "a: ".to_owned() + &"[".repeat(100_000)),
        (Format::Containerlab, "- ".repeat(100_000) + "a"),
        (Format::Containerlab, (0..2000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
        (Format::GraphMl, "<a>".repeat(100_000)),
        (Format::TopoHub, "[".repeat(100_000)),
        (Format::Toml, "a = ".to_owned() + &"[".repeat(100_000)),
    ];
    for (format, text) in deep {
        let message = refused(format, &text);
        assert!(message.len() < 300 && !message.contains('\n'), "{format:?}: {message}");
    }
}

const GRAPHML: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d42" />
  <key attr.name="LinkSpeedUnits" attr.type="string" for="edge" id="d41" />
  <key attr.name="LinkLabel" attr.type="string" for="edge" id="d40" />
  <key attr.name="LinkSpeed" attr.type="string" for="edge" id="d39" />
  <key attr.name="label" attr.type="string" for="node" id="d33" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d32" />
  <key attr.name="Country" attr.type="string" for="node" id="d30" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d29" />
  <key attr.name="label" attr.type="string" for="graph" id="d12" />
  <graph edgedefault="undirected">
    <data key="d12">Small2012</data>
    <node id="0"><data key="d29">40.71427</data><data key="d32">-74.00597</data><data key="d33">New York</data></node>
    <node id="1"><data key="d29">41.85003</data><data key="d32">-87.65005</data><data key="d33">Chicago</data></node>
    <node id="2"><data key="d30">Nowhere</data><data key="d33">New York</data></node>
    <edge source="0" target="1"><data key="d42">2500000000.0</data><data key="d40">2.5 Gbps</data></edge>
    <edge source="0" target="1"><data key="d39">155</data><data key="d41">M</data></edge>
    <edge source="1" target="2"><data key="d40">10 Gbps</data></edge>
    <edge source="0" target="1"><data key="d40">Lit Fibre</data></edge>
    <edge source="2" target="2"/>
  </graph>
</graphml>
"#;

#[test]
fn the_topology_zoo_is_read() {
    let Imported { network, notes } = read(Format::GraphMl, GRAPHML);
    assert_eq!(network.name, "Small2012");
    let nodes: Vec<&str> = network.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(nodes, ["New-York", "Chicago", "New-York-2"]);
    let links: Vec<_> = network.links.iter().map(|link| (link.name.as_str(), link.forward.rate)).collect();
    let expected = [
        ("New-York-Chicago", Some(Rate::mbps(2500))),
        ("New-York-Chicago-2", Some(Rate::mbps(155))),
        ("Chicago-New-York-2", Some(Rate::gbps(10))),
        ("New-York-Chicago-3", None),
    ];
    assert_eq!(links, expected);
    // 1,145 km by air are 1,500 km of fibre by the rule of ITU-T G.826.
    assert_eq!(network.links[0].forward.delay, Duration::from_micros(7350));
    assert_eq!(network.links[2].forward.delay, Duration::ZERO);
    assert_eq!(
        notes,
        [
            "node `New York` is called `New-York`: names are letters, digits, `_`, `.` and `-`, each once",
            "node `New York` is called `New-York-2`: names are letters, digits, `_`, `.` and `-`, each once",
            "link `Chicago-New-York-2` has no delay: the place of an end is not known",
            "link `New-York-Chicago-3` has no rate: `Lit Fibre` is none",
            "an edge from node `New-York-2` to itself is left out (line 21)",
            "left out is what the file says of Country",
            "there is no host, only routers: add `[[host]]` and links to them",
        ]
    );
}

#[test]
fn refusals_of_graphml_have_lines() {
    let message = refused(Format::GraphMl, &GRAPHML.replace("source=\"1\"", "source=\"7\""));
    assert_eq!(message, "file:19: an edge: source: unknown node `7`; there are: 0, 1, 2");
    let message = refused(Format::GraphMl, &GRAPHML.replace("node id=\"1\"", "node id=\"0\""));
    assert_eq!(message, "file:15: node `Chicago`: another node has that name: call one of them otherwise");
    let message = refused(Format::GraphMl, &GRAPHML.replace("</graph>", ""));
    assert!(message.starts_with("file:23: no XML: "), "{message}");
    assert_eq!(refused(Format::GraphMl, "<a/>"), "file: no `<graph>`: is this GraphML?");
    // Entities that grow are refused with the document type that would declare them.
    let laughs = "<!DOCTYPE a [<!ENTITY b \"ha\">]><a>&b;</a>";
    assert!(refused(Format::GraphMl, laughs).contains("DTD"), "{}", refused(Format::GraphMl, laughs));
}

const TOPOHUB: &str = r#"{
"directed": false, "multigraph": false,
"graph": {"name": "abilene", "demands": {}, "stats": {"nodes": 2}},
"nodes": [
  {"pos": [-74.01, 40.71], "id": "New York"},
  {"pos": [-87.65, 41.85], "id": 1, "name": "Chicago"},
  {"pos": [4000, 200], "id": 2}
],
"links": [
  {"dist": 1146.16, "ecmp_fwd": {"uni": 39.39}, "source": "New York", "target": 1},
  {"source": 1, "target": "New York"},
  {"source": 1, "target": 2}
]
}"#;

#[test]
fn topohub_is_read() {
    let Imported { network, notes } = read(Format::TopoHub, TOPOHUB);
    assert_eq!(network.name, "abilene");
    let nodes: Vec<&str> = network.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(nodes, ["New-York", "Chicago", "2"]);
    let delays: Vec<u128> = network.links.iter().map(|link| link.forward.delay.as_micros()).collect();
    assert_eq!(delays, [5616, 7350, 0], "the length as it is said, the great circle, nothing");
    assert_eq!(
        notes,
        [
            "node `New York` is called `New-York`: names are letters, digits, `_`, `.` and `-`, each once",
            "the places of 1 nodes are left out: they are not in degrees",
            "link `Chicago-2` has no delay: no length and no places",
            "left out is what the file says of demands, ecmp_fwd, stats",
            "there is no host, only routers: add `[[host]]` and links to them",
        ]
    );
    // NetworkX calls the list `edges` since its version 3.4.
    assert_eq!(read(Format::TopoHub, &TOPOHUB.replace("\"links\": [", "\"edges\": [")).network, network);
}

#[test]
fn refusals_of_topohub_name_line_and_thing() {
    let message = refused(Format::TopoHub, &TOPOHUB.replace("\"source\": 1", "\"source\": \"New Yrok\""));
    assert_eq!(message, "file:11: a link: source: unknown node `New Yrok`; did you mean `New York`?");
    let message = refused(Format::TopoHub, &TOPOHUB.replace("1146.16", "-1"));
    assert!(message.starts_with("file:10: link `New-York-Chicago`: distance: `-1 km` is no distance"), "{message}");
    assert!(refused(Format::TopoHub, "{\n\n,").starts_with("file:3: no JSON: "));
    assert!(refused(Format::TopoHub, "{}").ends_with("is this a graph in node-link form?"));
    let text = |nodes: &str, own: &str| {
        let links = format!("{{\n\"source\": 1, \"target\": 2,\n\"longhaul\": {{\n\"name\": \"ab\",\n{own}\n}}\n}}");
        format!("{{\n\"links\": [\n{links}],\n\"nodes\": [\n{nodes}\n]\n}}")
    };
    let two = "{\"id\": 1},\n{\"id\": 2}";
    for (nodes, own, says) in [
        (two, "\"rate\": \"fast\"", "file:7: link `ab`: rate: "),
        (two, "\"rate\": [1]", "file:7: a link: `longhaul.rate` is no text"),
        ("{\"id\": 1},\n{\"name\": \"b\"}", "", "file:12: a node has no `id`"),
        ("{\"id\": 1},\n\n{\"id\": 1}", "", "file:13: node `1`"),
        ("{\"id\": 1, \"longhaul\": {\"kind\": \"switch\"}}", "", "file:11: node `1`: "),
    ] {
        let own = if own.is_empty() { "\"delay\": \"1 ms\"" } else { own };
        let message = refused(Format::TopoHub, &text(nodes, own));
        assert!(message.starts_with(says), "{message}");
    }
    assert_eq!(refused(Format::TopoHub, "{\n\"links\": [],\n\"nodes\": []}"), "file:3: no node in `nodes`");
}

/// What other formats can carry: no sentence, no paths, and sites in the order of the nodes that have them.
fn carried(network: &Network) -> Network {
    let mut carried = Network { about: None, paths: Vec::new(), sites: Vec::new(), ..network.clone() };
    for node in &mut carried.nodes {
        node.site = node.site.map(|site| {
            let site = &network.sites[site];
            carried.sites.iter().position(|known| known == site).unwrap_or_else(|| {
                carried.sites.push(site.clone());
                carried.sites.len() - 1
            })
        });
    }
    carried
}

#[test]
fn shipped_networks_go_there_and_back() {
    for (name, text) in shipped() {
        let network = Network::from_toml(text, name).unwrap();
        let carried = carried(&network);
        for format in [Format::Containerlab, Format::GraphMl, Format::TopoHub] {
            let exported = network.export(format);
            assert_eq!(read(format, &exported.text).network, carried, "{name} as {format:?}");
        }
    }
}

#[test]
fn what_containerlab_gets_is_what_its_schema_says() {
    let (_, text) = shipped()[0];
    let exported = Network::from_toml(text, "pair.toml").unwrap().to_containerlab();
    let expected = r#"name: "pair"
topology:
  nodes:
    "a":
      kind: linux
      labels:
        longhaul.kind: host
    "b":
      kind: linux
      labels:
        longhaul.kind: host
  links:
    - endpoints: ["a:eth1", "b:eth1"]
      mtu: 1500
      labels:
        longhaul.name: "ab"
        longhaul.rate: "1 Gb/s"
        longhaul.delay: "50ms"
"#;
    assert_eq!(exported.text, expected);
    assert_eq!(exported.notes[0], "`about` is left out: containerlab has no place for it");
}

#[test]
fn the_ending_tells_the_format() {
    let cases = [
        ("topologies/pair.toml", Some(Format::Toml)),
        ("lab.clab.yml", Some(Format::Containerlab)),
        ("LAB.CLAB.YAML", Some(Format::Containerlab)),
        ("Geant2012.graphml", Some(Format::GraphMl)),
        ("Abilene.json", Some(Format::TopoHub)),
        ("compose.yml", None),
    ];
    for (name, format) in cases {
        assert_eq!(Format::of(name), format, "{name}");
    }
}

#[test]
fn a_name_of_megabytes_is_made_to_fit_at_once() {
    // Moving what follows for each that is left out would take minutes.
    let name = format!("a{}b", "-".repeat(2 << 20));
    let network =
        read(Format::TopoHub, &format!(r#"{{"nodes": [{{"id": 0, "name": "{name}"}}], "edges": []}}"#)).network;
    assert_eq!(network.nodes[0].name, "a-b");
}

#[test]
fn what_is_documented_is_read() {
    let document = include_str!("../../../docs/topologies.md");
    let block = |language: &str| {
        let (_, after) = document.split_once(&format!("```{language}\n")).unwrap();
        after.split_once("```").unwrap().0
    };
    let network = read(Format::Toml, block("toml")).network;
    assert_eq!((network.links.len(), network.paths.len()), (5, 1));
    let wrong = block("toml").replace("\"100 Gb/s\"", "\"100 gb/s\"");
    let message = Network::from_toml(&wrong, "atlantic.toml").unwrap_err().to_string();
    assert!(document.contains(&message), "{message}");

    let Imported { network, notes } = read(Format::Containerlab, block("yaml"));
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(network.nodes[1].kind, NodeKind::Router);
    assert_eq!(network.links[0].backward.loss, Loss::Random(Probability::new(1e-4).unwrap()));
    for (name, _) in shipped() {
        assert!(document.contains(&format!("| `{name}` |")), "{name}");
    }
}

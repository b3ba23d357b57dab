//! The NUMA nodes of a machine: their processors and the distances between them, as sysfs has them.

use super::cpus::Cpus;
use super::machine::Machine;
use crate::error::{Error, Result};
use std::io::ErrorKind::NotFound;

/// Directory of sysfs with the nodes.
const NODES: &str = "/sys/devices/system/node";

/// The nodes of a machine that are online, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    number: u32,
    /// None of memory without processors, as CXL has it.
    cpus: Cpus,
    /// To each node, itself included, in the order of the nodes.
    distances: Vec<u32>,
}

impl Topology {
    /// Reads the topology. Where the system has none there is no node.
    ///
    /// # Errors
    /// Unsupported, with the file and what it holds, if that is not what the kernel writes (torn,
    /// or of another kernel); Io and NotFound, if a file cannot be read.
    pub fn read(machine: &Machine) -> Result<Topology> {
        let path = format!("{NODES}/online");
        let online = match machine.read(&path) {
            Err(error) if error.kind() == NotFound => return Ok(Topology::default()),
            text => list(&path, &text.map_err(|source| Error::from_io(&path, "reading", 0, source))?)?,
        };
        let node = |number: usize| {
            let file = |name: &str| {
                let path = format!("{NODES}/node{number}/{name}");
                let text = machine.read(&path).map_err(|source| Error::from_io(&path, "reading", 0, source))?;
                Ok((path, text))
            };
            let (path, text) = file("cpulist")?;
            let cpus = list(&path, &text)?;
            let (path, text) = file("distance")?;
            let distances: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
            match distances.filter(|distances| distances.len() == online.iter().count()) {
                Some(distances) => Ok(Node { number: number as u32, cpus, distances }),
                None => Err(garbled(&path, &text, "a distance to each node that is online")),
            }
        };
        Ok(Topology { nodes: online.iter().map(node).collect::<Result<_>>()? })
    }

    /// Numbers of the nodes.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().map(|node| node.number)
    }

    /// Processors of a node; `None` if no node of this number is online.
    pub fn cpus_of(&self, node: u32) -> Option<&Cpus> {
        self.find(node).map(|node| &node.cpus)
    }

    /// The node with processors among `allowed` that is nearest to the memory of `node`: itself, if
    /// it has any. Of two at one distance the lower number counts.
    pub fn nearest(&self, node: u32, allowed: &Cpus) -> Option<u32> {
        let distances = &self.find(node)?.distances;
        let near = self.nodes.iter().zip(distances).filter(|(other, _)| !other.cpus.and(allowed).is_empty());
        near.min_by_key(|(other, distance)| (other.number != node, **distance, other.number))
            .map(|(near, _)| near.number)
    }

    fn find(&self, node: u32) -> Option<&Node> {
        self.nodes.iter().find(|one| one.number == node)
    }
}

/// Parses a set of processors, or of nodes.
fn list(path: &str, text: &str) -> Result<Cpus> {
    Cpus::parse(text).ok_or_else(|| garbled(path, text, "a list of numbers below 1024"))
}

#[cold]
fn garbled(path: &str, text: &str, wanted: &str) -> Error {
    let seen: String = text.trim_end().chars().take(80).collect();
    Error::unsupported(path, &format!("{seen:?} where {wanted} was expected"))
}

#[cfg(test)]
mod tests {
    use super::super::faked::Faked;
    use super::*;
    use crate::error::ErrorKind;

    fn read(faked: &Faked) -> Result<Topology> {
        Topology::read(&faked.machine())
    }

    #[test]
    fn nodes_have_their_processors_and_the_nearest_is_found() {
        let topology = read(&Faked::new(&[
            (0, "0-3", "10 21 31 17"),
            (1, "4-7", "21 10 31 28"),
            (4, "8-9", "31 31 10 28"),
            (6, "", "17 28 28 10"),
        ]))
        .expect("it is read");
        let all: Cpus = (0..10).collect();
        assert_eq!(topology.numbers().collect::<Vec<_>>(), [0, 1, 4, 6]);
        assert_eq!(topology.cpus_of(4).map(Cpus::to_string).as_deref(), Some("8-9"));
        assert_eq!(topology.nearest(1, &all), Some(1));
        assert_eq!(topology.nearest(6, &all), Some(0), "memory without processors");
        let others: Cpus = (4..10).collect();
        assert_eq!(topology.nearest(6, &others), Some(1), "of two at one distance the lower number");
        assert_eq!(topology.nearest(0, &others), Some(1), "its own processors are not allowed");
        assert_eq!((topology.cpus_of(3), topology.nearest(3, &all)), (None, None), "it does not exist");
        assert_eq!(topology.nearest(0, &Cpus::default()), None);
    }

    #[test]
    fn a_system_without_nodes_has_none() {
        let faked = Faked::new(&[]);
        faked.remove("/sys/devices/system/node/online");
        assert_eq!(read(&faked).expect("that is no fault"), Topology::default());
    }

    /// A half of a file would pin threads to a half of a node.
    #[test]
    fn what_the_kernel_did_not_write_is_refused_with_its_file() {
        let files = [
            ("online", "0-", "list of numbers"),
            ("online", "0-5000", "list of numbers"),
            ("node1/cpulist", "2-3,\0", "list of numbers"),
            ("node0/distance", "10", "distance to each node"),
            ("node0/distance", "10 2x", "distance to each node"),
            ("node1/distance", "", "distance to each node"),
        ];
        for (file, content, wanted) in files {
            let faked = Faked::new(&[(0, "0-1", "10 20"), (1, "2-3", "20 10")]);
            read(&faked).expect("it is sound");
            let path = format!("/sys/devices/system/node/{file}");
            faked.write(&path, content);
            let error = read(&faked).expect_err("torn");
            assert_eq!((error.kind(), error.file()), (ErrorKind::Unsupported, Some(path.as_str())));
            assert!(error.to_string().contains(wanted), "{error}");
        }
        let faked = Faked::new(&[(0, "0-1", "10 20"), (1, "2-3", "20 10")]);
        faked.remove("/sys/devices/system/node/node1/cpulist");
        let error = read(&faked).expect_err("the node went while it was read");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"istio.io/istio/pkg/kube/krt"
	"istio.io/istio/pkg/log"
)

// The objects are plain structs, as on the Rust side. They tell their keys, labels and equality themselves: by reflection it takes longer.
type pod struct {
	namespace, name string
	labels          map[string]string
	ip              string
}

type service struct {
	namespace, name string
	selector        map[string]string
	// What pods do not care about.
	revision int
}

type workload struct {
	namespace, name string
	ip              string
	services        []string
}

func (p *pod) ResourceName() string         { return p.namespace + "/" + p.name }
func (p *pod) GetNamespace() string         { return p.namespace }
func (p *pod) GetLabels() map[string]string { return p.labels }
func (p *pod) Equals(other *pod) bool {
	return p.namespace == other.namespace && p.name == other.name && p.ip == other.ip && maps.Equal(p.labels, other.labels)
}

func (s *service) ResourceName() string                { return s.namespace + "/" + s.name }
func (s *service) GetNamespace() string                { return s.namespace }
func (s *service) GetLabelSelector() map[string]string { return s.selector }
func (s *service) Equals(other *service) bool {
	return s.namespace == other.namespace && s.name == other.name && s.revision == other.revision && maps.Equal(s.selector, other.selector)
}

func (w workload) ResourceName() string { return w.namespace + "/" + w.name }
func (w workload) Equals(other workload) bool {
	return w.namespace == other.namespace && w.name == other.name && w.ip == other.ip && slices.Equal(w.services, other.services)
}

// size is how many of what there are; the Rust side has the same in crates/krt/benches/scenario/pods.rs.
type size struct {
	name                             string
	pods, services, apps, namespaces int
	unique                           bool
}

func (s size) pod(number, ip int) *pod {
	name := fmt.Sprintf("pod-%d", number)
	labels := map[string]string{"app": fmt.Sprintf("app-%d", number%s.apps)}
	if s.unique {
		labels["statefulset.kubernetes.io/pod-name"] = name
	}
	return &pod{
		namespace: fmt.Sprintf("ns-%d", number%s.namespaces),
		name:      name,
		labels:    labels,
		ip:        fmt.Sprintf("10.%d.%d.%d", ip>>16&255, ip>>8&255, ip&255),
	}
}

func (s size) service(number, revision int) *service {
	return &service{
		namespace: fmt.Sprintf("ns-%d", number%s.namespaces),
		name:      fmt.Sprintf("service-%d", number),
		selector:  map[string]string{"app": fmt.Sprintf("app-%d", number%s.apps)},
		revision:  revision,
	}
}

// graph is the collections, and how many events its handler has seen.
type graph struct {
	size     size
	pods     krt.StaticCollection[*pod]
	services krt.StaticCollection[*service]
	seen     counter
	runs     counter
	updates  int
	random   *rand.Rand
	stop     chan struct{}
}

// counter tells when something has happened so often.
type counter struct {
	count, target atomic.Int64
	reached       chan struct{}
}

func (c *counter) one() {
	if c.count.Add(1) == c.target.Load() {
		c.reached <- struct{}{}
	}
}

// expect says how much more is waited for. Nothing may be on its way.
func (c *counter) expect(more int) { c.target.Store(c.count.Load() + int64(more)) }

// newGraph makes the collections and waits until everything is computed.
func newGraph(size size, pods []*pod, services []*service) *graph {
	g := &graph{
		size:   size,
		seen:   counter{reached: make(chan struct{}, 1)},
		runs:   counter{reached: make(chan struct{}, 1)},
		random: rand.New(rand.NewSource(7)),
		stop:   make(chan struct{}),
	}
	options := krt.NewOptionsBuilder(g.stop, "bench", nil)
	g.pods = krt.NewStaticCollection(nil, pods, options.WithName("pods")...)
	g.services = krt.NewStaticCollection(nil, services, options.WithName("services")...)
	byNamespace := krt.NewNamespaceIndex[*service](g.services)
	workloads := krt.NewCollection[*pod, workload](g.pods, func(ctx krt.HandlerContext, p *pod) *workload {
		defer g.runs.one()
		services := byNamespace.Fetch(ctx, p.namespace, krt.FilterSelectsNonEmpty(p.labels))
		names := make([]string, 0, len(services))
		for _, service := range services {
			names = append(names, service.name)
		}
		return &workload{namespace: p.namespace, name: p.name, ip: p.ip, services: names}
	}, options.WithName("workloads")...)
	g.seen.expect(len(pods))
	workloads.Register(func(krt.Event[workload]) { g.seen.one() })
	<-g.seen.reached
	return g
}

// podRound is a round of pods drawn evenly and without repetition, each with an address that it did not have, and how long it takes
// until the handler has seen them all.
func (g *graph) podRound(count int) time.Duration {
	updates := make([]*pod, 0, count)
	for _, number := range g.random.Perm(g.size.pods)[:count] {
		g.updates++
		updates = append(updates, g.size.pod(number, g.updates))
	}
	g.seen.expect(count)
	start := time.Now()
	for _, update := range updates {
		g.pods.UpdateObject(update)
	}
	<-g.seen.reached
	return time.Since(start)
}

// serviceRound is the same with services, which change nothing: how long it takes until the transformation has run for each pod of each
// service. The handler sees none of it.
func (g *graph) serviceRound(count int) time.Duration {
	updates := make([]*service, 0, count)
	for _, number := range g.random.Perm(g.size.services)[:count] {
		g.updates++
		updates = append(updates, g.size.service(number, g.updates))
	}
	g.runs.expect(count * g.size.podsOfAnApp())
	start := time.Now()
	for _, update := range updates {
		g.services.UpdateObject(update)
	}
	<-g.runs.reached
	return time.Since(start)
}

// podsOfAnApp is how many pods of one namespace have one app.
func (s size) podsOfAnApp() int {
	count := 0
	for number := 0; number < s.pods; number++ {
		if number%s.apps == 0 && number%s.namespaces == 0 {
			count++
		}
	}
	return count
}

// collections runs the course that the Rust side runs in collections.rs.
func collections(args []string) error {
	flags := flag.NewFlagSet("collections", flag.ContinueOnError)
	var s size
	flags.IntVar(&s.pods, "pods", 0, "pods")
	flags.IntVar(&s.services, "services", 0, "services")
	flags.IntVar(&s.apps, "apps", 0, "different labels of pods")
	flags.IntVar(&s.namespaces, "namespaces", 0, "namespaces")
	flags.BoolVar(&s.unique, "unique", false, "each pod has a label that no other has")
	rounds := flags.Int("rounds", 0, "rounds of updates")
	round := flags.Int("round", 0, "updates in a round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 0 || s.apps <= 0 || s.namespaces <= 0 || *rounds <= 0 || *round <= 0 || *round > s.pods {
		return errors.New("usage: peers collections -pods N -services N -apps N -namespaces N -rounds N -round N [-unique]")
	}
	// It would tell on standard output that it is synced.
	log.FindScope("krt").SetOutputLevel(log.WarnLevel)
	outcome := map[string]int64{}
	pods := make([]*pod, s.pods)
	for number := range pods {
		pods[number] = s.pod(number, 0)
	}
	services := make([]*service, s.services)
	for number := range services {
		services[number] = s.service(number, 0)
	}
	before := live()
	start := time.Now()
	g := newGraph(s, pods, services)
	outcome["initial_ns"] = time.Since(start).Nanoseconds()
	outcome["heap"] = max(live()-before, 0)
	runtime.KeepAlive(pods)
	runtime.KeepAlive(services)

	// Once without a clock, so that nothing is measured for the first time.
	g.podRound(*round)
	var took time.Duration
	used := cpu()
	for range *rounds {
		took += g.podRound(*round)
	}
	outcome["pod_ns"] = took.Nanoseconds() / int64(*rounds**round)
	outcome["pod_cpu_ns"] = (cpu() - used) / int64(*rounds**round)

	count := min(*round, s.services)
	g.serviceRound(count)
	took = 0
	serviceRounds := max(*rounds/10, 1)
	for range serviceRounds {
		took += g.serviceRound(count)
	}
	outcome["service_ns"] = took.Nanoseconds() / int64(serviceRounds*count)
	close(g.stop)
	return json.NewEncoder(os.Stdout).Encode(outcome)
}

// live is what is in use after a collection.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

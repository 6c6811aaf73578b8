package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// jobs is what a course asks of a queue, whichever it is.
type jobs interface {
	add(number int, key string)
	addAfter(key string, delay time.Duration)
	get() (string, bool)
	done(key string)
	shutDown()
}

// plain is client-go's queue, without a metrics provider.
type plain struct {
	workqueue.TypedDelayingInterface[string]
}

func newPlain() jobs { return plain{workqueue.NewTypedDelayingQueue[string]()} }

func (q plain) add(_ int, key string)                    { q.Add(key) }
func (q plain) addAfter(key string, delay time.Duration) { q.AddAfter(key, delay) }
func (q plain) get() (string, bool) {
	key, shutdown := q.Get()
	return key, !shutdown
}
func (q plain) done(key string) { q.Done(key) }
func (q plain) shutDown()       { q.ShutDown() }

// prioritized is controller-runtime's queue, with three priorities in use; a queue without a name has no metrics.
type prioritized struct {
	priorityqueue.PriorityQueue[string]
}

func newPrioritized() jobs { return prioritized{priorityqueue.New[string]("")} }

func (q prioritized) add(number int, key string) {
	priority := number % 3
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
}

func (q prioritized) addAfter(key string, delay time.Duration) {
	priority := 0
	q.AddWithOpts(priorityqueue.AddOpts{After: delay, Priority: &priority}, key)
}

func (q prioritized) get() (string, bool) {
	key, _, shutdown := q.GetWithPriority()
	return key, !shutdown
}
func (q prioritized) done(key string) { q.Done(key) }
func (q prioritized) shutDown()       { q.ShutDown() }

// queue runs the course that the Rust side runs, several times, and prints the least time of each part.
func queue(args []string) error {
	flags := flag.NewFlagSet("queue", flag.ContinueOnError)
	count := flags.Int("keys", 0, "distinct keys")
	repeats := flags.Int("repeats", 1, "how often each part runs; the least time counts")
	priority := flags.Bool("priority", false, "controller-runtime's priority queue instead of client-go's")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 0 || *count <= 0 || *repeats <= 0 {
		return errors.New("usage: peers queue -keys N [-repeats N] [-priority]")
	}
	keys := make([]string, *count)
	for number := range keys {
		keys[number] = fmt.Sprintf("namespace-%d/object-%d", number%100, number)
	}
	create := newPlain
	if *priority {
		create = newPrioritized
	}
	parts := map[string]func(jobs, []string) time.Duration{
		"one_ns":       oneByOne,
		"drain_ns":     drain,
		"again_ns":     again,
		"contended_ns": contended,
		"after_ns":     after,
	}
	if !*priority {
		parts["limiter_ns"] = func(_ jobs, keys []string) time.Duration { return limiter(keys) }
	}
	outcome := map[string]int64{}
	for name, part := range parts {
		for range *repeats {
			queue := create()
			took := part(queue, keys).Nanoseconds()
			queue.shutDown()
			if least, known := outcome[name]; !known || took < least {
				outcome[name] = took
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(outcome)
}

func oneByOne(queue jobs, keys []string) time.Duration {
	start := time.Now()
	for number, key := range keys {
		queue.add(number, key)
		key, _ = queue.get()
		queue.done(key)
	}
	return time.Since(start)
}

func drain(queue jobs, keys []string) time.Duration {
	start := time.Now()
	for first := 0; first < len(keys); first += 1000 {
		chunk := keys[first:min(first+1000, len(keys))]
		for number, key := range chunk {
			queue.add(number, key)
		}
		for range chunk {
			key, _ := queue.get()
			queue.done(key)
		}
	}
	return time.Since(start)
}

func again(queue jobs, keys []string) time.Duration {
	queue.add(0, keys[0])
	start := time.Now()
	for range keys {
		queue.add(0, keys[0])
	}
	return time.Since(start)
}

func contended(queue jobs, keys []string) time.Duration {
	start := time.Now()
	var producers sync.WaitGroup
	var handled atomic.Int64
	all := make(chan struct{})
	for range 4 {
		go func() {
			for {
				key, ok := queue.get()
				if !ok {
					return
				}
				queue.done(key)
				if handled.Add(1) == int64(len(keys)) {
					close(all)
				}
			}
		}()
	}
	for producer := range 4 {
		producers.Go(func() {
			for number := producer; number < len(keys); number += 4 {
				queue.add(number, keys[number])
			}
		})
	}
	producers.Wait()
	// Not every queue hands out what is left after a shut-down.
	<-all
	// The caller's shut-down ends the consumers; controller-runtime's queue takes only one.
	return time.Since(start)
}

func after(queue jobs, keys []string) time.Duration {
	start := time.Now()
	for number, key := range keys {
		queue.addAfter(key, time.Duration(1+number*7919%1000)*time.Microsecond)
	}
	for range keys {
		key, _ := queue.get()
		queue.done(key)
	}
	return time.Since(start)
}

func limiter(keys []string) time.Duration {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	var sum time.Duration
	start := time.Now()
	for _, key := range keys {
		sum += limiter.When(key)
		limiter.Forget(key)
	}
	took := time.Since(start)
	if sum != time.Duration(len(keys))*5*time.Millisecond {
		panic("the limiter is another one than was meant")
	}
	return took
}

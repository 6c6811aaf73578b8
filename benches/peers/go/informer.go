package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// How long the informer rests before its steady state is read; the same as on the Rust side.
const rest500ms = 500 * time.Millisecond

// seen counts what the handler sees.
type seen struct {
	count, target atomic.Int64
	reached       chan struct{}
	version       atomic.Int64
}

func (s *seen) one(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		s.version.Store(int64(len(pod.ResourceVersion)))
	}
	if s.count.Add(1) == s.target.Load() {
		s.reached <- struct{}{}
	}
}

// informer runs the course that the Rust side runs: sync, rest, relist, rest, events.
func informer(args []string) error {
	flags := flag.NewFlagSet("informer", flag.ContinueOnError)
	pods := flags.Int64("pods", 0, "pods in the list")
	events := flags.Int64("events", 0, "events that the server has prepared")
	protobuf := flags.Bool("protobuf", false, "ask for protobuf")
	transform := flags.Bool("transform", false, "drop managedFields in a transform")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: peers informer [FLAGS] ADDRESS")
	}
	server := "http://" + flags.Arg(0)
	config := &rest.Config{Host: server, DisableCompression: true, QPS: -1}
	if *protobuf {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var options []informers.SharedInformerOption
	if *transform {
		options = append(options, informers.WithTransform(dropManagedFields))
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, options...)
	shared := factory.Core().V1().Pods().Informer()
	count := &seen{reached: make(chan struct{}, 1)}
	_, err = shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { count.one(object) },
		UpdateFunc: func(_, object any) { count.one(object) },
		DeleteFunc: func(object any) { count.one(object) },
	})
	if err != nil {
		return err
	}

	outcome := map[string]int64{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop := make(chan struct{})
	count.target.Store(*pods)
	began, used := time.Now(), cpu()
	factory.Start(stop)
	<-count.reached
	outcome["sync_ns"] = time.Since(began).Nanoseconds()
	outcome["sync_cpu_ns"] = cpu() - used
	if outcome["sync_peak"], err = status("VmHWM:"); err != nil {
		return err
	}

	if err := order(server, "watches/1"); err != nil {
		return err
	}
	time.Sleep(rest500ms)
	if outcome["steady"], err = status("VmRSS:"); err != nil {
		return err
	}

	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return err
	}
	if err := errors.Join(order(server, "expire"), order(server, "watches/2")); err != nil {
		return err
	}
	time.Sleep(rest500ms)
	if outcome["relist_peak"], err = status("VmHWM:"); err != nil {
		return err
	}

	// Unchanged objects of a relist reach the handler as updates; they have done so by now.
	count.target.Store(count.count.Load() + *events)
	var started runtime.MemStats
	runtime.ReadMemStats(&started)
	began, used = time.Now(), cpu()
	if err := order(server, "flood"); err != nil {
		return err
	}
	<-count.reached
	outcome["events_ns"] = time.Since(began).Nanoseconds()
	outcome["events_cpu_ns"] = cpu() - used
	runtime.ReadMemStats(&after)
	outcome["allocations"] = int64(after.Mallocs - started.Mallocs)

	// At the very end, so that a forced collection changes nothing that was measured.
	runtime.GC()
	runtime.ReadMemStats(&after)
	outcome["heap"] = int64(after.HeapAlloc - before.HeapAlloc)
	if cached := len(shared.GetStore().ListKeys()); int64(cached) != *pods {
		return fmt.Errorf("the store has %d of %d pods", cached, *pods)
	}
	close(stop)
	return json.NewEncoder(os.Stdout).Encode(outcome)
}

// dropManagedFields is the transform that client-go's documentation shows to save memory.
func dropManagedFields(object any) (any, error) {
	if meta, ok := object.(metav1.Object); ok {
		meta.SetManagedFields(nil)
	}
	return object, nil
}

// order sends one order to the server and waits for its answer.
func order(server, what string) error {
	answer, err := http.Get(server + "/control/" + what)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server refused %s: %s", what, answer.Status)
	}
	return nil
}

// cpu is the processor time of this process so far, user and system, in nanoseconds.
func cpu() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // only for a wrong argument
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// status reads one field of the process's memory, in bytes.
func status(field string) (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/self/status", field)
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// encode writes, for the JSON data in a directory, what an API server would send as protobuf.
func encode(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: peers encode DIR")
	}
	at := func(name string) string { return filepath.Join(args[0], name) }
	whole := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

	text, err := os.ReadFile(at("list.json"))
	if err != nil {
		return err
	}
	var list corev1.PodList
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("list.json: %w", err)
	}
	var body bytes.Buffer
	if err := whole.Encode(&list, &body); err != nil {
		return err
	}
	if err := os.WriteFile(at("list.pb"), body.Bytes(), 0o666); err != nil {
		return err
	}
	if err := encodeEvents(at("events.json"), at("events.pb"), whole); err != nil {
		return err
	}

	expired := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Message: "too old resource version", Reason: metav1.StatusReasonExpired, Code: 410,
	}
	file, err := os.Create(at("expire.pb"))
	if err != nil {
		return err
	}
	defer file.Close()
	return writeEvent(file, "ERROR", expired, whole)
}

func encodeEvents(from, to string, whole runtime.Encoder) error {
	events, err := os.Open(from)
	if err != nil {
		return err
	}
	defer events.Close()
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	decoder := json.NewDecoder(bufio.NewReaderSize(events, 1<<20))
	for {
		var event struct {
			Type   string
			Object corev1.Pod
		}
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return out.Flush()
		} else if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		if err := writeEvent(out, event.Type, &event.Object, whole); err != nil {
			return err
		}
	}
}

// writeEvent writes one frame of a watch: its length, then an event that holds the encoded object.
func writeEvent(out io.Writer, kind string, object runtime.Object, whole runtime.Encoder) error {
	var inner bytes.Buffer
	if err := whole.Encode(object, &inner); err != nil {
		return err
	}
	event := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: inner.Bytes()}}
	raw := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
	var frame bytes.Buffer
	if err := raw.Encode(event, &frame); err != nil {
		return err
	}
	_, err := protobuf.LengthDelimitedFramer.NewFrameWriter(out).Write(frame.Bytes())
	return err
}

// Prints Go's view of every served type, as JSON: crates/fake-apiserver/data/kubernetes-1.37-structs.json is its output.
//
//	go run ./structs ../../crates/fake-apiserver/data/kubernetes-1.37-discovery.json
//
// The OpenAPI document says nothing of what decides the bytes that Go writes and reads: the order of fields, pointer or
// value, omitempty, and the protobuf numbers of embedded messages; and a strategic merge patch is applied by the tags of
// Go's fields, not by that document. Reflection over the types of the same modules that
// the server is built from does.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const note = "Go's view of every served type, by reflection over the types of the 1.37.2 modules: fields in struct order " +
	"(embedded structs expanded in place) with the JSON name, the shape t, the Go type, protobuf field numbers from the " +
	"outside in (two for a field of an embedded struct), ptr = pointer, omit = the omitempty and omitzero options, " +
	"in = the embedded structs that it is a field of, patch = patch strategies and key = the merge key of strategic merge patch"

// A field as it stands in JSON.
type field struct {
	Name  string `json:"name"`
	Type  any    `json:"t"`
	Go    string `json:"go"`
	Proto []int  `json:"proto,omitempty"`
	Ptr   bool   `json:"ptr,omitempty"`
	Omit  string `json:"omit,omitempty"`
	In    string `json:"in,omitempty"`
	Patch string `json:"patch,omitempty"`
	Key   string `json:"key,omitempty"`
}

type structure struct {
	Go     string  `json:"go"`
	Fields []field `json:"fields"`
}

// Types that write themselves to JSON in a form of their own.
var special = map[string]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":                                         "quantity",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Duration":                                         "duration",
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":                                         "fieldsv1",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":                                        "microtime",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":                                             "time",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":                                          "raw",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString":                                       "intorstring",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON":                         "json",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray":       "schemaorarray",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool":        "schemaorbool",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "schemaorstrings",
}

// The structures found so far, by their OpenAPI name.
var found = map[string]*structure{}

// The OpenAPI name of a type: its package with the host reversed.
func name(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// The shape of a value in JSON: a scalar, a name, {"list": shape} or {"map": shape}.
func shape(t reflect.Type) any {
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem())
	case reflect.String:
		return "str"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return map[string]any{"list": shape(t.Elem())}
	case reflect.Map:
		return map[string]any{"map": shape(t.Elem())}
	case reflect.Struct:
		if form, ok := special[name(t)]; ok {
			if strings.HasPrefix(form, "schema") {
				add(reflect.TypeFor[apiextensions.JSONSchemaProps]())
			}
			return form
		}
		add(t)
		return name(t)
	default: // bool and the numbers; anything else has no place in an API type and shows as an unknown shape
		return t.Kind().String()
	}
}

// The number in a protobuf tag such as `bytes,3,opt,name=x`; 0 if there is none.
func number(f reflect.StructField) int {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}

func fields(t reflect.Type, outer []int, in string) []field {
	all := []field{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		if !f.IsExported() || tag[0] == "-" {
			continue
		}
		path := append(slices.Clone(outer), number(f))
		if f.Anonymous && tag[0] == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner == reflect.TypeFor[meta.TypeMeta]() {
				all = append(all,
					field{Name: "kind", Type: "str", Go: "string", Omit: "empty"},
					field{Name: "apiVersion", Type: "str", Go: "string", Omit: "empty"})
			} else {
				names := f.Name
				if in != "" {
					names = in + "." + names
				}
				all = append(all, fields(inner, path, names)...)
			}
			continue
		}
		omit := ""
		for _, option := range tag[1:] {
			if option == "omitempty" || option == "omitzero" {
				omit += strings.TrimPrefix(option, "omit")
			}
		}
		if number(f) == 0 {
			path = nil
		}
		called := tag[0]
		if called == "" {
			called = f.Name
		}
		all = append(all, field{
			called, shape(f.Type), f.Type.String(), path, f.Type.Kind() == reflect.Pointer, omit, in,
			f.Tag.Get("patchStrategy"), f.Tag.Get("patchMergeKey"),
		})
	}
	return all
}

// Adds a structure and all that it holds.
func add(t reflect.Type) {
	if _, known := found[name(t)]; known {
		return
	}
	s := &structure{Go: t.String()}
	found[name(t)] = s // before its fields: some types hold themselves
	s.Fields = fields(t, nil, "")
}

// The kinds that the discovery document serves, those of subresources included.
func served(file string) (map[schema.GroupVersionKind]bool, error) {
	bytes, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	type kind struct{ Kind, Group, Version string }
	var discovery struct {
		Groups []struct {
			Group    string
			Versions []struct {
				Version   string
				Resources []struct {
					Kind         string
					Subresources []kind
				}
			}
		}
	}
	if err := json.Unmarshal(bytes, &discovery); err != nil {
		return nil, err
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, group := range discovery.Groups {
		for _, version := range group.Versions {
			for _, resource := range version.Resources {
				kinds[schema.GroupVersionKind{Group: group.Group, Version: version.Version, Kind: resource.Kind}] = true
				for _, sub := range resource.Subresources {
					if sub.Version == "" { // that of the resource itself
						sub.Group, sub.Version = group.Group, version.Version
					}
					kinds[schema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}] = true
				}
			}
		}
	}
	return kinds, nil
}

func run(file string) error {
	kinds, err := served(file)
	if err != nil {
		return err
	}
	known := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme, aggregator.AddToScheme} {
		if err := register(known); err != nil {
			return err
		}
	}
	list := [][]string{}
	for kind := range kinds {
		t, ok := known.AllKnownTypes()[kind]
		if !ok {
			return fmt.Errorf("no type for %v", kind)
		}
		add(t)
		list = append(list, []string{kind.Group, kind.Version, kind.Kind, name(t)})
	}
	slices.SortFunc(list, func(a, b []string) int { return strings.Compare(strings.Join(a, "/"), strings.Join(b, "/")) })
	for _, options := range []any{meta.DeleteOptions{}, meta.CreateOptions{}, meta.UpdateOptions{}, meta.PatchOptions{}, meta.Status{}} {
		add(reflect.TypeOf(options))
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"version": "1.37.2", "note": note, "kinds": list, "types": found})
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: structs DISCOVERY.json > STRUCTS.json")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "structs:", err)
		os.Exit(1)
	}
}

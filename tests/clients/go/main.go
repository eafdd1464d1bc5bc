// What Go applications do through pgx and lib/pq. Prints "name ... ok" or "name ... FAILED (reason)".
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

// A check ends with an error if a promise is broken.
type check struct {
	name string
	work func(ctx context.Context, url string) error
}

func main() {
	failed := false
	for _, one := range append(pgxChecks, pqChecks...) {
		if err := run(one, os.Args[1]); err != nil {
			failed = true
			fmt.Printf("%s ... FAILED (%s)\n", one.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Printf("%s ... ok\n", one.name)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func run(one check, url string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("%v", broken)
		}
	}()
	return one.work(ctx, url)
}

// must ends the check with this error, if there is one.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// got gives the value, and ends the check with the error, if there is one.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// expect ends the check unless both are deeply equal.
func expect(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("%#v in place of %#v", found, wanted))
	}
}

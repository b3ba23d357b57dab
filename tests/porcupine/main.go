// Judges histories of perdura-kv's clients by Porcupine: whether what each key showed can have happened in one order.
//
// Arguments: files of JSON lines, an operation each:
//
//	{"client": 1, "key": "k", "op": "set", "arg": "v", "old": null, "call": 10, "return": 20, "answer": "OK"}
//
// op is get, set, cas (old -> arg), del, append or incr. Times are microseconds of one clock. An operation with return null
// was sent and not answered: it took effect at any time after its call, or never. An answer of null says nil.
// Prints a line for each file, and exits with 0 if all histories are linearizable, 1 if one is not, 2 if one cannot be judged.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// How long a key's history may take.
const patience = 120 * time.Second

type operation struct {
	Client int     `json:"client"`
	Key    string  `json:"key"`
	Op     string  `json:"op"`
	Arg    string  `json:"arg"`
	Old    *string `json:"old"`
	Call   int64   `json:"call"`
	Return *int64  `json:"return"`
	Answer *string `json:"answer"`
}

// What a key holds.
type value struct {
	there bool
	text  string
}

func (now value) count() (int64, bool) {
	if !now.there {
		return 0, true
	}
	count, err := strconv.ParseInt(now.text, 10, 64)
	return count, err == nil
}

// Whether the operation was answered with this text, or not answered at all.
func (done *operation) says(text string) bool {
	return done.Return == nil || (done.Answer != nil && *done.Answer == text)
}

func (done *operation) saysNil() bool {
	return done.Return == nil || done.Answer == nil
}

// What becomes of the key, and whether the answer can be that.
func (done *operation) step(now value) (bool, value) {
	switch done.Op {
	case "get":
		if now.there {
			return done.says(now.text), now
		}
		return done.saysNil(), now
	case "set":
		return done.says("OK"), value{true, done.Arg}
	case "cas":
		if done.Old != nil && now.there && now.text == *done.Old {
			return done.says("OK"), value{true, done.Arg}
		}
		return done.saysNil(), now
	case "del":
		if now.there {
			return done.says("1"), value{}
		}
		return done.says("0"), now
	case "append":
		next := now.text + done.Arg
		return done.says(strconv.Itoa(len(next))), value{true, next}
	case "incr":
		count, isNumber := now.count()
		text := strconv.FormatInt(count+1, 10)
		return isNumber && done.says(text), value{true, text}
	}
	return false, now
}

func describe(input, _ interface{}) string {
	done := input.(*operation)
	text := done.Op
	if done.Old != nil {
		text += " " + *done.Old + " ->"
	}
	text += " " + done.Arg + ": "
	switch {
	case done.Return == nil:
		return text + "?"
	case done.Answer == nil:
		return text + "nil"
	}
	return text + *done.Answer
}

var model = porcupine.Model{
	Init: func() interface{} { return value{} },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		return input.(*operation).step(state.(value))
	},
	DescribeOperation: describe,
	DescribeState:     func(state interface{}) string { return fmt.Sprintf("%+v", state) },
}

// The operations of a file, by key.
func read(path string) (map[string][]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	keys := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for number := 1; lines.Scan(); number++ {
		done := &operation{}
		if err := json.Unmarshal(lines.Bytes(), done); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		end := int64(math.MaxInt64)
		if done.Return != nil {
			end = *done.Return
		}
		one := porcupine.Operation{ClientId: done.Client, Input: done, Call: done.Call, Return: end}
		keys[done.Key] = append(keys[done.Key], one)
	}
	return keys, lines.Err()
}

// Judges a file. Returns what the program exits with.
func judge(path string) int {
	keys, err := read(path)
	if err != nil {
		fmt.Println("judge: error:", err)
		return 2
	}
	var names []string
	operations := 0
	for name := range keys {
		names = append(names, name)
		operations += len(keys[name])
	}
	sort.Strings(names)
	worst, bad := 0, 0
	for _, name := range names {
		result, info := porcupine.CheckOperationsVerbose(model, keys[name], patience)
		if result == porcupine.Ok {
			continue
		}
		bad++
		shown := path + "." + strconv.Itoa(bad) + ".html"
		if err := porcupine.VisualizePath(model, info, shown); err != nil {
			shown = err.Error()
		}
		if result == porcupine.Illegal {
			fmt.Printf("%s: VIOLATION: key %s, %d operations: %s\n", path, name, len(keys[name]), shown)
			worst = 1
		} else {
			fmt.Printf("%s: error: key %s, %d operations: not judged in %s\n", path, name, len(keys[name]), patience)
			if worst == 0 {
				worst = 2
			}
		}
	}
	fmt.Printf("%s: %d operations on %d keys, %d keys not linearizable\n", path, operations, len(names), bad)
	return worst
}

func main() {
	worst := 0
	for _, path := range os.Args[1:] {
		if code := judge(path); worst == 0 {
			worst = code
		}
	}
	os.Exit(worst)
}

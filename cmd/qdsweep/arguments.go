package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"qdsweep/sweep"
)

// The checks of how many arguments a command takes, in words that say which is missing or too many. Cobra's own count.

func oneProfile(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("which profile? A file, or a shipped one (`qdsweep profiles` lists them)")
	case 1:
		return nil
	}
	return tooMany("one profile", args[1:])
}

func oneFolder(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("which sweep? Its output folder")
	case 1:
		return nil
	}
	return tooMany("one folder", args[1:])
}

func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return tooMany("one name", args[1:])
	}
	return nil
}

func atMostOneFolder(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return tooMany("one output folder", args[1:])
	}
	return nil
}

func someResults(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("which results? The output folder of a sweep, or a results.csv")
	}
	return nil
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return tooMany("no argument", args)
	}
	return nil
}

func tooMany(taken string, over []string) error {
	return fmt.Errorf("too many arguments: %s; it takes %s", strings.Join(over, " "), taken)
}

// knownCommand is of the program itself, whose only argument would be a command that there is not.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("there is no command %q%s", args[0], didYouMean(args[0], names, ""))
}

// newHelp is cobra's own, but for a command that there is not: that is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "help about any command", Args: atMostOne, RunE: func(c *cobra.Command, args []string) error {
		of, _, err := c.Root().Find(args)
		if err != nil {
			return err
		}
		if len(args) > 0 && of == c.Root() {
			return &sweep.UsageError{Text: knownCommand(of, args).Error()}
		}
		of.InitDefaultHelpFlag()
		return of.Help()
	}}
}

// wrongFlag says what is wrong with a flag, and which was meant.
func wrongFlag(c *cobra.Command, err error) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if len(unknown.GetSpecifiedName()) > 1 {
			text += didYouMean(unknown.GetSpecifiedName(), names, "--")
		}
	case errors.As(err, &value):
		f := value.GetFlag()
		text = fmt.Sprintf("--%s %s: %s", f.Name, value.GetValue(), wanted(f, value))
	}
	return &sweep.UsageError{Text: fmt.Sprintf("%s\n  %s --help lists the flags", text, c.CommandPath())}
}

// wanted is what a flag takes; what the parsers of numbers say is of no use to a user.
func wanted(f *pflag.Flag, err *pflag.InvalidValueError) string {
	switch f.Value.Type() {
	case "duration":
		return "not a duration; as 500ms, 30s, 5m or 1h30m"
	case "int":
		return "not a whole number"
	case "uint64":
		return "not a whole number from 0 on"
	}
	return err.Unwrap().Error()
}

func didYouMean(word string, known []string, prefix string) string {
	if near := sweep.Closest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %s%s?", prefix, near)
	}
	return ""
}

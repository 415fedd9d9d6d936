package drive

import (
	"embed"
	"fmt"
	"os"
	"path"
	"strings"
)

//go:embed models/*.yaml
var modelFiles embed.FS

// Models are the named ones. Each says which published finding it is built to show; none is a measurement of the
// drive that the finding was made on.
func Models() ([]Model, error) {
	entries, err := modelFiles.ReadDir("models")
	if err != nil {
		return nil, err
	}
	var models []Model
	for _, entry := range entries {
		file, err := modelFiles.Open(path.Join("models", entry.Name()))
		if err != nil {
			return nil, err
		}
		m, err := ReadModel(entry.Name(), file)
		_ = file.Close()
		if err != nil {
			return nil, err
		}
		if m.Name+".yaml" != entry.Name() {
			return nil, fmt.Errorf("%s calls itself %s", entry.Name(), m.Name)
		}
		models = append(models, m)
	}
	return models, nil
}

// FindModel is a named one, or where name has a / or ends in .yaml that file's.
func FindModel(name string) (Model, error) {
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") {
		file, err := os.Open(name)
		if err != nil {
			return Model{}, err
		}
		defer func() { _ = file.Close() }()
		return ReadModel(name, file)
	}
	models, err := Models()
	if err != nil {
		return Model{}, err
	}
	var names []string
	for _, m := range models {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Model{}, fmt.Errorf("no model is called %q: there are %s (a file has a / or ends in .yaml)", name, strings.Join(names, ", "))
}

// ModelText is the file of a named model, comments and all.
func ModelText(name string) ([]byte, error) {
	if _, err := FindModel(name); err != nil {
		return nil, err
	}
	return modelFiles.ReadFile(path.Join("models", name+".yaml"))
}

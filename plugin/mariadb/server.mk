# How to compile a plugin against the unpacked server: its places, headers and flags. Our plugin and the benchmarks' null engine include
# this, so that they are built alike. Whoever includes it has set TOP to the checkout.

BUILD   ?= $(TOP)/build

SERVER  := $(BUILD)/mariadb/usr
SOURCE  := $(BUILD)/mariadb-src
OUT     := $(BUILD)/plugin
SERVICES := $(firstword $(wildcard $(SERVER)/lib/*/libmysqlservices.a))

CXX      ?= g++
CXXFLAGS ?= -O2 -g
FLAGS := -std=gnu++17 -fPIC -fno-strict-aliasing -fno-omit-frame-pointer \
  -Wall -Wextra -Wno-unused-parameter -Werror \
  -DMYSQL_DYNAMIC_PLUGIN -DDBUG_OFF -DHAVE_CONFIG_H
# The server's own headers come first, so that installed ones cannot hide them, and as system headers, which raise no warnings.
SERVER_INCLUDES := \
  -isystem $(SOURCE)/generated -isystem $(SERVER)/include/mariadb/server \
  -isystem $(SOURCE)/include -isystem $(SOURCE)/sql \
  -isystem $(SOURCE)/wsrep-lib/include -isystem $(SOURCE)/wsrep-lib/wsrep-API/v26

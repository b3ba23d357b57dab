# How to compile a plugin against the unpacked server: its places, headers and flags. Our plugin and the benchmarks' null engine include
# this, so that they are built alike. Whoever includes it has set TOP to the checkout. PERDURA_SERVER=11.8 in the environment names the server of
# another series.

BUILD   ?= $(TOP)/build

SERIES  := $(if $(PERDURA_SERVER),-$(PERDURA_SERVER))
UNPACKED := $(BUILD)/mariadb$(SERIES)/usr
SOURCE  := $(BUILD)/mariadb-src$(SERIES)
OUT     := $(BUILD)/plugin$(SERIES)
SERVICES := $(firstword $(wildcard $(UNPACKED)/lib/*/libmysqlservices.a))

CXX      ?= g++
CXXFLAGS ?= -O2 -g
FLAGS := -std=gnu++17 -fPIC -fno-strict-aliasing -fno-omit-frame-pointer \
  -Wall -Wextra -Wno-unused-parameter -Werror \
  -DMYSQL_DYNAMIC_PLUGIN -DDBUG_OFF -DHAVE_CONFIG_H
# The server's own headers come first, so that installed ones cannot hide them, and as system headers, which raise no warnings.
SERVER_INCLUDES := \
  -isystem $(SOURCE)/generated -isystem $(UNPACKED)/include/mariadb/server \
  -isystem $(SOURCE)/include -isystem $(SOURCE)/sql \
  -isystem $(SOURCE)/wsrep-lib/include -isystem $(SOURCE)/wsrep-lib/wsrep-API/v26

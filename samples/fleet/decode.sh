#!/bin/sh
# Decodes a folder of captures into a dataset, with as many processes as there are cores: decode.sh CAPTURES DATASET [options of mcptap read]
# Each folder below CAPTURES that holds captures is one task: `mcptap split` makes such folders. Run it again after an error: nothing is added twice.
set -eu
captures=$1 dataset=$2
shift 2
export dataset
find "$captures" -type f \( -name '*.pcap' -o -name '*.pcapng' -o -name '*.cap' -o -name '*.gz' -o -name '*.zst' \) -exec dirname {} \; | sort -u |
  tr '\n' '\0' | xargs -0 -P "$(nproc)" -I {} sh -c 'folder=$1; shift; exec "${MCPTAP:-mcptap}" read --threads 1 --dataset "$dataset" "$@" "$folder"/*' - {} "$@"

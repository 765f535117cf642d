#!/bin/bash
#SBATCH --job-name=dkdist
#SBATCH --ntasks=9
#SBATCH --cpus-per-task=1
# A Dask cluster for the length of one job: sbatch --ntasks=N slurm.sh ARGUMENTS OF dkdist fit
# One task is the scheduler, the other N - 1 are workers; all is encrypted with a certificate that lives as long as
# the job, because others use these hosts too. Submit it from a folder that all hosts share.
set -euo pipefail

umask 077
folder=$(mktemp -d "$PWD/cluster-$SLURM_JOB_ID-XXXX")
trap 'rm -rf "$folder"' EXIT
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=job $SLURM_JOB_ID" \
    -keyout "$folder/key.pem" -out "$folder/certificate.pem" 2> /dev/null
export DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME=tls DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE="$folder/certificate.pem"
for role in SCHEDULER WORKER CLIENT; do
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__CERT=$folder/certificate.pem"
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__KEY=$folder/key.pem"
done

srun --ntasks=1 --nodes=1 --exact dask scheduler --scheduler-file "$folder/scheduler.json" \
    --dashboard-address 127.0.0.1:0 &
until [ -s "$folder/scheduler.json" ]; do
    kill -0 $! || exit 1 # the scheduler did not start
    sleep 0.2
done
srun --ntasks=$((SLURM_NTASKS - 1)) --exact dask worker --scheduler-file "$folder/scheduler.json" \
    --nthreads "${SLURM_CPUS_PER_TASK:-1}" --dashboard-address 127.0.0.1:0 --preload dkdist.preload &

dkdist fit "$@" --scheduler-file "$folder/scheduler.json"

//! Many ranks in one process under virtual time, with seeded faults.
